// A titled part of the live view.

import { html } from "../vendor/preact.js";

let numPanels = 0;
const ids = new Map();

function idOf(title) {
  if (!ids.has(title)) ids.set(title, `panel-${(numPanels += 1)}`);
  return ids.get(title);
}

/** @param {{title: string, note?: string, isWide?: boolean, children: unknown}} props */
export function Panel({ title, note, isWide, children }) {
  return html`<section class=${isWide ? "panel wide" : "panel"} aria-labelledby=${idOf(title)}>
    <h2 id=${idOf(title)}>${title} ${note && html`<small class="quiet">${note}</small>`}</h2>
    ${children}
  </section>`;
}
