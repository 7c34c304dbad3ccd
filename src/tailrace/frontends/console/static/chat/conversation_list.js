// The conversations of this browser: open, delete, take away as a file.

import { titleOf } from "./conversation.js";
import { deleteConversation, openConversation, startConversation } from "./desk.js";
import { moveFocus } from "../focus.js";
import { html } from "../vendor/preact.js";

/** @param {{all: object[], open: object, close: () => void}} props */
export function ConversationList({ all, open, close }) {
  const go = (action) => () => {
    action();
    close();
  };
  return html`<nav class="conversations" aria-label="Conversations">
    <button type="button" onClick=${go(startConversation)}>New conversation</button>
    <ul onKeyDown=${(event) => moveFocus(event, "ul button.title")}>
      ${all.map(
        (each) => html`<li key=${each.id}>
          <button
            type="button"
            class="title plain"
            aria-current=${each.id === open.id ? "true" : null}
            onClick=${go(() => openConversation(each.id))}
          >
            ${titleOf(each)}
          </button>
          <button type="button" class="plain" aria-label=${`Delete “${titleOf(each)}”`} title="Delete" onClick=${() => deleteConversation(each.id)}>×</button>
        </li>`,
      )}
    </ul>
    <p class="quiet">Kept in this browser alone.</p>
    <button type="button" class="plain" disabled=${!all.length} onClick=${() => download(all)}>Export as JSON</button>
  </nav>`;
}

function download(conversations) {
  const text = JSON.stringify({ conversations }, null, 2);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "tailrace-conversations.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
