// Where keys and values lie, how full each level is, and what it gives.

import { Heat } from "./heat.js";
import { Panel } from "./panel.js";
import { Gauge, ShareBar } from "./share_bar.js";
import { bytes, count, percent } from "../format.js";
import { html } from "../vendor/preact.js";

const STATES = [
  ["sealed", "series-1", "in use and named"],
  ["filling", "series-3", "being filled"],
  ["reserved", "series-4", "reserved"],
  ["idle", "series-2", "idle, to be found again"],
  ["free", "line", "free"],
];

/** @param {{frame: object}} props */
export function Levels({ frame }) {
  return html`<${Panel} title="KV cache" note="hit rate: share of the last minute's prompt tokens">
    <div class="scroll" tabindex="0" role="group" aria-label="Table of levels">
      <table>
        <thead><tr><th scope="col">Level</th><th>Used</th><th>Memory</th><th>Hit rate</th><th>State</th></tr></thead>
        <tbody>${frame.levels.map((level) => html`<${Row} key=${level.name} level=${level} />`)}</tbody>
      </table>
    </div>
    <${Blocks} blocks=${frame.blocks} />
    <${Heat} heat=${frame.heat} />
  </${Panel}>`;
}

function Row({ level }) {
  const { name, used, num_bytes, max_bytes, hit_rate } = level;
  return html`<tr>
    <th scope="row">${name}</th>
    <td><${Gauge} share=${used} /></td>
    <td class="number">${bytes(num_bytes)}${max_bytes !== null && ` / ${bytes(max_bytes)}`}</td>
    <td class="number">${percent(hit_rate)}</td>
    <td class=${level.is_up && level.mode === "normal" ? "" : "late"}>${level.is_up ? level.mode : "down"}</td>
  </tr>`;
}

function Blocks({ blocks }) {
  const total = STATES.reduce((sum, [name]) => sum + blocks[name], 0);
  if (!total) return null;
  const parts = STATES.map(([key, colour, name]) => ({ name, colour, share: blocks[key] / total, words: count(blocks[key]) }));
  return html`<h3>Blocks of the engine</h3>
    <${ShareBar} parts=${parts} />
    <p class="quiet">
      Fragmentation <span class="number">${percent(blocks.fragmentation)}</span>, given back to the system
      <span class="number"> ${count(blocks.released)}</span>
    </p>`;
}
