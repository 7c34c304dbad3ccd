// Hit rates by level over the last hours: red is 0%, green 100%, and every cell says it in a number too.

import { duration } from "../format.js";
import { html, useLayoutEffect, useRef } from "../vendor/preact.js";

const GREEN = 120; // of the colour wheel, on which red is 0

/** @param {{heat: {cell_s: number, rows: {level: string, cells: [number, number | null][]}[]}}} props */
export function Heat({ heat }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    if (place.current) place.current.scrollLeft = place.current.scrollWidth; // the newest cells are on the right
  }, [heat.rows.length]);
  if (!heat.rows.length) return null;
  return html`<h3>Hit rate in percent, cells of ${duration(heat.cell_s)}</h3>
    <div class="scroll" ref=${place} tabindex="0" role="group" aria-label="Hit rates over time">
      <table class="heat">
        <tbody>${heat.rows.map((row) => html`<${Row} key=${row.level} row=${row} />`)}</tbody>
        <tfoot><${Times} cells=${heat.rows[0].cells} /></tfoot>
      </table>
    </div>`;
}

function Row({ row }) {
  return html`<tr>
    <th scope="row">${row.level}</th>
    ${row.cells.map(([, share]) => html`<${Cell} share=${share} />`)}
  </tr>`;
}

function Cell({ share }) {
  if (share === null) return html`<td aria-label="nothing was asked"></td>`;
  return html`<td class="number" style=${{ "--hue": Math.round(share * GREEN) }}>${Math.round(share * 100)}</td>`;
}

// Every sixth cell has its time, counted from the newest.
function Times({ cells }) {
  return html`<tr>
    <th></th>
    ${cells.map(([agoS], index) => {
      const isNamed = (cells.length - 1 - index) % 6 === 0;
      return html`<td class="quiet">${isNamed ? (index === cells.length - 1 ? "now" : `${Math.round(agoS / 60)}m`) : ""}</td>`;
    })}
  </tr>`;
}
