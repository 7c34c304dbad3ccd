// Tokens a second, and how many requests run and wait.

import { Chart } from "./chart.js";
import { line, windowS } from "./history.js";
import { Panel } from "./panel.js";
import { count, digits } from "../format.js";
import { html } from "../vendor/preact.js";

/** @param {{history: import("./history.js").History}} props */
export function Throughput({ history: { points, marks } }) {
  const times = points.map(({ atS }) => atS);
  const total = (name) => line(points, ({ classes }) => classes.reduce((sum, each) => sum + each[name], 0));
  const shared = { times, marks, windowS: windowS(points), height: 190 };
  return html`<${Panel} title="Throughput" note="red lines are events">
    <${Chart}
      ...${shared}
      title="Tokens a second"
      format=${digits}
      lines=${[
        { name: "output", colour: "series-1", values: line(points, ({ rates }) => rates.output_tokens_per_s) },
        { name: "prompt", colour: "series-3", values: line(points, ({ rates }) => rates.prompt_tokens_per_s) },
      ]}
    />
    <${Chart}
      ...${shared}
      title="Requests"
      isWhole=${true}
      format=${count}
      lines=${[
        { name: "running", colour: "series-1", values: total("running") },
        { name: "waiting", colour: "series-2", values: total("waiting") },
      ]}
    />
  </${Panel}>`;
}
