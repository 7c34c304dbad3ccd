// The field for the next question. Enter sends, Shift and Enter begin a new line, Escape stops an answer.

import { isAnswering, send, stop } from "./desk.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const MAX_HEIGHT_PX = 240;

/** @param {{conversation: import("./conversation.js").Conversation}} props */
export function Composer({ conversation }) {
  const [typed, setTyped] = useState("");
  const field = useRef(null);
  const isBusy = isAnswering(conversation);
  useGlobalKeys(field);
  useLayoutEffect(() => fitHeight(field.current), [typed]);
  useEffect(() => field.current.focus({ preventScroll: true }), [conversation.id]);

  const submit = (event) => {
    event.preventDefault();
    if (isBusy || !typed.trim()) return;
    send(typed);
    setTyped("");
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <textarea
      ref=${field}
      rows="1"
      aria-label="Your question"
      placeholder="Ask something"
      value=${typed}
      onInput=${(event) => setTyped(event.target.value)}
      onKeyDown=${onKeyDown}
    />
    ${isBusy
      ? html`<button type="button" onClick=${() => stop()} title="Escape">Stop</button>`
      : html`<button class="primary" disabled=${!typed.trim()} title="Enter">Send</button>`}
  </form>`;
}

function fitHeight(field) {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, MAX_HEIGHT_PX)}px`;
}

// Wherever the reader is: Escape stops, a slash goes to the field.
function useGlobalKeys(field) {
  useEffect(() => {
    const onKeyDown = (event) => {
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "Escape") stop();
      if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
      event.preventDefault();
      field.current.focus();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}
