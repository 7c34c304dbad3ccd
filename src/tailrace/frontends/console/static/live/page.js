// What the server does right now.

import { html } from "../vendor/preact.js";

export function LivePage() {
  return html`<h1 class="only-read">Live</h1>`;
}
