// The steps of the engine. Arrow keys and the pointer choose one, which is then described in words; the steps stand still
// until it is let go.

import { turns } from "./colours.js";
import { Panel } from "./panel.js";
import { COLUMN_PX, DECODE_COLOUR, drawSteps, HEIGHT_PX, PROMPT_COLOURS } from "./step_drawing.js";
import { addressOf } from "../address.js";
import { useCell } from "../cell.js";
import { plural, seconds } from "../format.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const MOVES = { ArrowLeft: -1, ArrowRight: 1 };

/** @param {{steps: object[], requests: object[]}} props */
export function Timeline({ steps, requests }) {
  const canvas = useRef(null);
  const width = useWidth(canvas);
  const [held, hold] = useState(null);
  const shown = (held?.steps ?? steps).slice(-Math.floor(width / COLUMN_PX));
  const chosen = held?.chosen ?? null;
  const turn = useCell(turns);
  useLayoutEffect(() => drawSteps(canvas.current, shown, width, chosen), [held ?? steps, width, turn]);

  const choose = (step) => hold(step && step !== chosen ? { steps: held?.steps ?? steps, chosen: step } : null);
  const onKeyDown = (event) => {
    const move = MOVES[event.key];
    if (event.key === "Escape") hold(null);
    if (!move || !shown.length) return;
    event.preventDefault();
    const next = shown[chosen ? shown.indexOf(chosen) + move : shown.length - 1];
    if (next) choose(next);
  };
  const onPointerDown = (event) => choose(shown[Math.floor(event.offsetX / COLUMN_PX)]);
  return html`<${Panel} title="Steps" note="newest on the right; arrow keys choose one, Esc goes on" isWide=${true}>
    <div class="timeline">
      <canvas ref=${canvas} tabindex="0" role="slider" ...${said(shown, chosen)} ...${{ onKeyDown, onPointerDown }} />
    </div>
    <${Colours} />
    <p class="chosen-step" aria-live="polite">
      ${chosen ? html`<${Words} step=${chosen} requests=${requests} />` : summary(shown)}
    </p>
  </${Panel}>`;
}

/** The width of what an element is in, as it changes. */
function useWidth(element) {
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const resized = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width));
    resized.observe(element.current.parentElement);
    return () => resized.disconnect();
  }, []);
  return width;
}

/** What screen readers say of the canvas. */
function said(steps, chosen) {
  return {
    height: HEIGHT_PX,
    "aria-label": "Step",
    "aria-valuemin": steps[0]?.id ?? 0,
    "aria-valuemax": steps.at(-1)?.id ?? 0,
    "aria-valuenow": (chosen ?? steps.at(-1))?.id ?? 0,
    "aria-valuetext": chosen ? `step ${chosen.id}` : "none is chosen",
  };
}

function Colours() {
  const swatch = (name) => html`<i class="swatch" style=${{ color: `var(--${name})` }}></i>`;
  return html`<ul class="legends">
    <li class="legend">${swatch(DECODE_COLOUR)}decodes</li>
    <li class="legend">${PROMPT_COLOURS.map(swatch)}prompt chunks, a colour a request</li>
    <li class="legend"><i class="swatch target" style=${{ color: "var(--ink)" }}></i>predicted</li>
  </ul>`;
}

function summary(steps) {
  if (!steps.length) return "No step has been computed while this page looked.";
  const longest = steps.reduce((one, other) => (other.took_s > one.took_s ? other : one));
  return `${plural(steps.length, "step")}, the longest ${seconds(longest.took_s)}.`;
}

function Words({ step, requests }) {
  const chunks = step.prompts.map(
    ([id, tokens], index) => html`${index ? ", " : " of "}<${Whose} id=${id} requests=${requests} /> (${tokens})`,
  );
  return html`Step <span class="number">${step.id}</span> took ${seconds(step.took_s)}, predicted
    ${" "}${seconds(step.predicted_s)}: ${plural(step.num_decodes, "decode")},
    ${" "}${plural(step.num_prompt_tokens, "prompt token")}${chunks}.`;
}

// The engine's name of a sequence begins with that of its request, of which it may be one of several answers.
function Whose({ id, requests }) {
  const request = requests.find((each) => id.startsWith(each.id));
  return request ? html`<a href=${addressOf("live", request.id)}>${request.id}</a>` : html`<code>${id}</code>`;
}
