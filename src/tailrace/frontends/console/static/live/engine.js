// What the engine's time goes to, what steers its steps, and what its processes use.

import { Panel } from "./panel.js";
import { ShareBar } from "./share_bar.js";
import { bytes, count, digits, percent } from "../format.js";
import { html } from "../vendor/preact.js";

const COLOURS = {
  compute: "series-1",
  plan: "series-3",
  publish: "series-2",
  intake: "series-4",
  other: "quiet",
  idle: "line",
};

/** @param {{frame: object}} props */
export function Engine({ frame: { time, control, processes } }) {
  const parts = Object.entries(time).map(([name, share]) => ({ name, share, colour: COLOURS[name] ?? "quiet" }));
  return html`<${Panel} title="Engine" note="wall time of the last 5 s">
    ${parts.length ? html`<${ShareBar} parts=${parts} />` : html`<p class="quiet">Where its time goes is not known.</p>`}
    <h3>Budget and controller</h3>
    <dl class="facts-list">
      <div><dt>tokens a step may compute</dt><dd class="number">${count(control.budget_tokens)}</dd></div>
      <div><dt>requests at once</dt><dd class="number">${count(control.max_running)}</dd></div>
      <div><dt>pace of this machine</dt><dd class="number">${digits(control.pace)}</dd></div>
      <div><dt>targets held at</dt><dd class="number">× ${digits(control.target_scale)}</dd></div>
      <div><dt>step time off by, P50</dt><dd class="number">${percent(control.prediction_error_p50)}</dd></div>
    </dl>
    <h3>Processes</h3>
    <dl class="facts-list">
      ${processes.map(
        ({ name, resident_bytes, cpu }) => html`<div><dt>${name}</dt><dd class="number">${bytes(resident_bytes)}, ${digits(cpu)} cores</dd></div>`,
      )}
    </dl>
  </${Panel}>`;
}
