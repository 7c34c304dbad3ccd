// What operators want to know of: rules that fired, levels that went, processes that ended.

import { Panel } from "./panel.js";
import { html } from "../vendor/preact.js";

/** @param {{events: {at_s: number, kind: string, message: string}[]}} props */
export function Happenings({ events }) {
  return html`<${Panel} title="Events" isWide=${true}>
    ${events.length
      ? html`<ul class="events scroll tall" tabindex="0" aria-label="Events">
          ${events.map((event) => html`<${Happening} event=${event} />`)}
        </ul>`
      : html`<p class="quiet">Nothing out of the ordinary has happened.</p>`}
  </${Panel}>`;
}

function Happening({ event }) {
  const at = new Date(event.at_s * 1e3);
  return html`<li>
    <time class="number quiet" datetime=${at.toISOString()} title=${at.toLocaleString()}>${at.toLocaleTimeString()}</time>
    <code>${event.kind}</code> <span>${event.message}</span>
  </li>`;
}
