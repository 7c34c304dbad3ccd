// Lines over the last minutes, with a legend that has the numbers: of now, or of where the pointer is.

import { colour, turns } from "./colours.js";
import { useCell } from "../cell.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const HEIGHT_PX = 150;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const FONT = "11px system-ui, sans-serif";

/**
 * @typedef {{name: string, colour: string, values: (number | null)[], isTarget?: boolean}} Line
 * @param {{title: string, times: number[], windowS: number, lines: Line[], format: (value: number | null) => string,
 *   marks: import("./history.js").Mark[], height?: number, isWhole?: boolean}} props
 */
export function Chart({ title, times, windowS, lines, marks, format, height = HEIGHT_PX, isWhole = false }) {
  const place = useRef(null);
  const drawn = useRef(null);
  const latest = useRef({});
  const [pointed, setPointed] = useState(null);
  const kind = [useCell(turns), ...lines.map(({ name, colour }) => name + colour)].join();
  latest.current = { windowS, marks, lines, end: times.at(-1) ?? 0 };

  useLayoutEffect(() => {
    const chart = new uPlot(options({ lines, format, height, isWhole }, latest, setPointed), [[], ...lines.map(() => [])], place.current);
    const resized = new ResizeObserver(([{ contentRect }]) => chart.setSize({ width: contentRect.width, height }));
    resized.observe(place.current);
    drawn.current = chart;
    return () => {
      resized.disconnect();
      chart.destroy();
    };
  }, [kind]);
  useLayoutEffect(() => drawn.current.setData([times, ...lines.map(({ values }) => values)]), [times, kind]);

  const shown = pointed ?? times.length - 1;
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      ${lines.map((each) => html`<${Legend} line=${each} value=${format(each.values[shown] ?? null)} />`)}
    </figcaption>
    <div ref=${place} class="plot" style=${{ height: `${height}px` }}></div>
  </figure>`;
}

function Legend({ line, value }) {
  return html`<span class="legend">
    <i class=${line.isTarget ? "swatch target" : "swatch"} style=${{ color: `var(--${line.colour})` }}></i>
    ${line.name} <span class="number">${value}</span>
  </span>`;
}

function options({ lines, format, height, isWhole }, latest, setPointed) {
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: FONT };
  return {
    width: 300,
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: false, range: () => [latest.current.end - latest.current.windowS, latest.current.end] },
      y: { range: () => [0, top(latest.current.lines)] },
    },
    axes: [
      { ...axis, size: 24, splits: () => splits(latest.current), values: (chart, at) => at.map((each) => ago(latest.current.end - each)) },
      { ...axis, size: 58, values: (chart, at) => at.map(format), ...(isWhole && { incrs: WHOLE }) },
    ],
    series: [{}, ...lines.map(series)],
    hooks: {
      setCursor: [(chart) => setPointed(chart.cursor.idx ?? null)],
      drawAxes: [(chart) => drawMarks(chart, latest.current.marks)],
    },
  };
}

/** As high as the lines go. A target that is far above them would make them flat: the legend has it. */
function top(lines) {
  const highest = (some) => Math.max(0, ...some.flatMap(({ values }) => values));
  const ofLines = highest(lines.filter(({ isTarget }) => !isTarget));
  const ofTarget = highest(lines.filter(({ isTarget }) => isTarget));
  return 1.1 * (ofTarget < ofLines * 4 || !ofLines ? Math.max(ofLines, ofTarget) : ofLines) || 1;
}

// Events: a line from top to bottom, behind the others.
function drawMarks({ ctx: pen, bbox, scales, valToPos }, marks) {
  pen.fillStyle = colour("bad");
  for (const { atS } of marks) {
    if (atS < scales.x.min || atS > scales.x.max) continue;
    pen.fillRect(Math.round(valToPos(atS, "x", true)), bbox.top, devicePixelRatio, bbox.height);
  }
}

function series(line) {
  return {
    stroke: colour(line.colour),
    width: line.isTarget ? 1 : 1.6,
    dash: line.isTarget ? [5, 4] : undefined,
    points: { show: false },
  };
}

function splits({ end, windowS }) {
  return [4, 3, 2, 1, 0].map((part) => end - (windowS * part) / 4);
}

function ago(s) {
  if (s < 1) return "now";
  return s < 120 ? `${Math.round(s)} s` : `${(s / 60).toFixed(s % 60 ? 1 : 0)} min`;
}
