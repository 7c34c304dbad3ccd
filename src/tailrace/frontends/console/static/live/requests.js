// The latest requests. Each can be opened.

import { Panel } from "./panel.js";
import { addressOf } from "../address.js";
import { moveFocus } from "../focus.js";
import { count, seconds } from "../format.js";
import { html } from "../vendor/preact.js";

/** @param {{requests: object[]}} props */
export function Requests({ requests }) {
  return html`<${Panel} title="Requests" note="open one to see its life" isWide=${true}>
    ${requests.length
      ? html`<div class="scroll tall" onKeyDown=${(event) => moveFocus(event, "tbody a")}><${Table} requests=${requests} /></div>`
      : html`<p class="quiet">Nobody has asked anything yet.</p>`}
  </${Panel}>`;
}

function Table({ requests }) {
  return html`<table class="requests">
    <thead>
      <tr>
        <th scope="col">Request</th><th>State</th><th>Class</th><th>Came</th><th>TTFT</th><th>Took</th><th>Prompt</th><th>Cached</th><th>Output</th>
      </tr>
    </thead>
    <tbody>${requests.map((request) => html`<${Row} key=${request.id} request=${request} />`)}</tbody>
  </table>`;
}

function Row({ request }) {
  return html`<tr>
    <th scope="row"><a href=${addressOf("live", request.id)}>${request.id}</a></th>
    <td class=${request.error ? "late" : ""}>${request.error ?? request.finish_reason ?? request.state}</td>
    <td>${request.class}</td>
    <td class="number">${seconds(request.ago_s)} ago</td>
    <td class="number">${seconds(request.ttft_s)}</td>
    <td class="number">${seconds(request.took_s)}</td>
    <td class="number">${count(request.num_prompt_tokens)}</td>
    <td class="number">${count(request.num_cached_tokens)}</td>
    <td class="number">${count(request.num_output_tokens)}</td>
  </tr>`;
}
