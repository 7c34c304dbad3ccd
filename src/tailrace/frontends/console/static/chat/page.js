// Chat with the model.

import { html } from "../vendor/preact.js";

export function ChatPage() {
  return html`<h1 class="only-read">Chat</h1>`;
}
