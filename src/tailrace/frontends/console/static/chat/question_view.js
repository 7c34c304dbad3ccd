// A question, and a field to put the last one differently.

import { edit } from "./desk.js";
import { html, useState } from "../vendor/preact.js";

/** @param {{question: import("./conversation.js").Question, isLast: boolean}} props */
export function QuestionView({ question, isLast }) {
  const [isEdited, setEdited] = useState(false);
  if (isEdited) return html`<${Editor} text=${question.text} close=${() => setEdited(false)} />`;
  return html`<article class="question" aria-label="Question">
    <p>${question.text}</p>
    ${isLast && html`<button type="button" class="plain" onClick=${() => setEdited(true)}>Edit</button>`}
  </article>`;
}

function Editor({ text, close }) {
  const [typed, setTyped] = useState(text);
  const submit = (event) => {
    event.preventDefault();
    close();
    if (typed.trim()) edit(typed);
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
    if (event.key !== "Escape") return;
    event.stopPropagation(); // it leaves the field, and stops no answer
    close();
  };
  return html`<form class="question editor" onSubmit=${submit}>
    <textarea
      aria-label="The question in other words"
      rows=${Math.min(12, typed.split("\n").length + 1)}
      value=${typed}
      onInput=${(event) => setTyped(event.target.value)}
      onKeyDown=${onKeyDown}
      ref=${(field) => field && field !== document.activeElement && field.focus()}
    />
    <p class="actions">
      <button type="button" onClick=${close}>Cancel</button>
      <button class="primary">Ask again</button>
    </p>
  </form>`;
}
