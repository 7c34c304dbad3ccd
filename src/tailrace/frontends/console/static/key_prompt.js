// The dialog that asks for an API key.

import { answerKey, question } from "./key.js";
import { useCell } from "./cell.js";
import { html, useEffect, useRef } from "./vendor/preact.js";

// Nothing else can stand in a header.
const KEY = "\\s*[\\x21-\\x7e]+\\s*";

export function KeyPrompt() {
  const reason = useCell(question);
  const dialog = useRef(null);
  const field = useRef(null);
  useEffect(() => {
    if (reason && !dialog.current.open) dialog.current.showModal();
    if (!reason && dialog.current.open) dialog.current.close();
  }, [reason]);
  const answer = (event) => {
    event.preventDefault();
    answerKey(field.current.value.trim());
    field.current.value = "";
  };
  return html`
    <dialog ref=${dialog} class="key-prompt" aria-labelledby="key-title" onCancel=${() => answerKey("")}>
      <form onSubmit=${answer}>
        <h2 id="key-title">This server asks for an API key</h2>
        <p class="quiet">${reason}</p>
        <label>
          API key
          <input
            ref=${field}
            type="password"
            name="key"
            autocomplete="current-password"
            required
            pattern=${KEY}
            title="Visible ASCII characters, without spaces"
          />
        </label>
        <p class="quiet">It is kept in this tab alone, until you close it.</p>
        <p class="actions">
          <button type="button" onClick=${() => answerKey("")}>Cancel</button>
          <button class="primary">Use it</button>
        </p>
      </form>
    </dialog>
  `;
}
