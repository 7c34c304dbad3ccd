// The service classes: who runs and waits, and how close their times are to what the class promises.

import { Chart } from "./chart.js";
import { classLine, windowS } from "./history.js";
import { Panel } from "./panel.js";
import { count, percent, seconds } from "../format.js";
import { html, useRef, useState } from "../vendor/preact.js";

/** @param {{frame: object, history: import("./history.js").History}} props */
export function Classes({ frame, history }) {
  const [wish, setWish] = useState(null);
  const seen = useRef(null);
  seen.current ??= frame.classes.find(isUsed)?.name ?? null;
  const chosen = frame.classes.find(({ name }) => name === (wish ?? seen.current)) ?? frame.classes[0];
  return html`<${Panel} title="Service classes" note="of the last minute">
    <div class="scroll" tabindex="0" role="group" aria-label="Table of service classes">
      <table>
        <thead>
          <tr><th scope="col">Class</th><th>Run</th><th>Wait</th><th>TTFT P50 / P99</th><th>ITL P50 / P99</th><th>On target</th><th>Refused</th></tr>
        </thead>
        <tbody>
          ${frame.classes.map((each) => html`<${Row} key=${each.name} each=${each} isChosen=${each === chosen} choose=${setWish} />`)}
        </tbody>
      </table>
    </div>
    ${chosen && html`<${Latency} history=${history} name=${chosen.name} what="ttft" title="Time to the first token" />`}
    ${chosen && html`<${Latency} history=${history} name=${chosen.name} what="itl" title="Time between tokens" />`}
  </${Panel}>`;
}

function isUsed({ running, waiting, ttft_p50_s }) {
  return running > 0 || waiting > 0 || ttft_p50_s !== null;
}

function Row({ each, isChosen, choose }) {
  return html`<tr>
    <th scope="row">
      <label class="pick">
        <input type="radio" name="class" checked=${isChosen} onChange=${() => choose(each.name)} />${each.name}
      </label>
    </th>
    <td class="number">${count(each.running)}</td>
    <td class="number">${count(each.waiting)}</td>
    <td class="number"><${Pair} each=${each} what="ttft" /></td>
    <td class="number"><${Pair} each=${each} what="itl" /></td>
    <td class="number">${percent(each.on_target)}</td>
    <td class="number">${count(each.num_refused)}</td>
  </tr>`;
}

function Pair({ each, what }) {
  const [p50, p99, target] = [each[`${what}_p50_s`], each[`${what}_p99_s`], each[`${what}_target_s`]];
  const isLate = p99 !== null && p99 > target;
  return html`${seconds(p50)} / <span class=${isLate ? "late" : ""}>${seconds(p99)}${isLate ? " ▲" : ""}</span>`;
}

function Latency({ history: { points, marks }, name, what, title }) {
  const values = (key) => classLine(points, name, (each) => each[`${what}_${key}_s`]);
  return html`<${Chart}
    title=${`${title}, ${name}`}
    times=${points.map(({ atS }) => atS)}
    windowS=${windowS(points)}
    marks=${marks}
    format=${seconds}
    lines=${[
      { name: "P50", colour: "series-1", values: values("p50") },
      { name: "P99", colour: "series-2", values: values("p99") },
      { name: "target", colour: "quiet", values: values("target"), isTarget: true },
    ]}
  />`;
}
