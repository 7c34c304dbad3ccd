// How close the engine is to what the machine can do, over all and by kind of stage.

import { Panel } from "./panel.js";
import { Gauge } from "./share_bar.js";
import { percent } from "../format.js";
import { html } from "../vendor/preact.js";

/** @param {{roofline: object | null}} props */
export function Roofline({ roofline }) {
  return html`<${Panel} title="Roofline" note="shares of the machine's ceilings">
    ${roofline
      ? html`<${Table} roofline=${roofline} />`
      : html`<p class="quiet">The ceilings of this machine are not known yet: <code>tailrace roofline</code> measures them once.</p>`}
  </${Panel}>`;
}

function Table({ roofline }) {
  const all = { name: "all", time_share: 1, ...roofline };
  return html`<p class="quiet">${verdict(roofline)}</p>
    ${roofline.ops.some(isAbove) && html`<p class="quiet">${ABOVE}</p>`}
    <div class="scroll tall" tabindex="0" role="group" aria-label="Table of stages">
      <table>
        <thead><tr><th scope="col">Stage</th><th>Time</th><th>Bandwidth</th><th>Arithmetic</th></tr></thead>
        <tbody>${[all, ...roofline.ops].map((op) => html`<${Row} key=${op.name} op=${op} />`)}</tbody>
      </table>
    </div>`;
}

const ABOVE =
  "More than 100%: the ceilings were measured while the machine was busier, or what was read lay in the processor's cache.";

function isAbove({ memory_share, compute_share }) {
  return memory_share > 1 || compute_share > 1;
}

function verdict({ binds, memory_share, compute_share }) {
  const [what, share] = binds === "memory" ? ["the memory's bandwidth", memory_share] : ["arithmetic", compute_share];
  return `What binds is ${what}: ${percent(share)} of it is used while a step computes.`;
}

function Row({ op }) {
  return html`<tr>
    <th scope="row">${op.name}</th>
    <td class="number">${percent(op.time_share)}</td>
    <td><${Gauge} share=${op.memory_share} /></td>
    <td><${Gauge} share=${op.compute_share} /></td>
  </tr>`;
}
