// A bar of parts, each as long as its share, and what each part is in words and numbers.

import { percent } from "../format.js";
import { html } from "../vendor/preact.js";

/**
 * @param {{parts: {name: string, share: number, colour: string, words?: string}[]}} props colours of the style sheet
 */
export function ShareBar({ parts }) {
  return html`
    <div class="share-bar" aria-hidden="true">
      ${parts.map(({ share, colour }) => html`<i style=${{ flexGrow: share, background: `var(--${colour})` }}></i>`)}
    </div>
    <ul class="legends">
      ${parts.map(
        ({ name, share, colour, words }) => html`<li class="legend">
          <i class="swatch" style=${{ color: `var(--${colour})` }}></i>${name} <span class="number">${words ?? percent(share)}</span>
        </li>`,
      )}
    </ul>
  `;
}

/** A share as a short bar and a number. @param {{share: number | null}} props */
export function Gauge({ share }) {
  return html`<span class="gauge">
    <span aria-hidden="true"><i style=${{ width: `${Math.min(1, share ?? 0) * 100}%` }}></i></span>
    <span class="number">${percent(share)}</span>
  </span>`;
}
