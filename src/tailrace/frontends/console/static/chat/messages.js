// The messages of a conversation. Who reads at the end stays at the end while an answer grows.

import { AnswerView } from "./answer_view.js";
import { QuestionView } from "./question_view.js";
import { html, useLayoutEffect, useMemo, useRef } from "../vendor/preact.js";

const NEAR_PX = 60;

/** @param {{conversation: import("./conversation.js").Conversation}} props */
export function Messages({ conversation }) {
  const { messages, id } = conversation;
  const place = useRef(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    isAtEnd.current = true;
  }, [id, messages.length]);
  useLayoutEffect(() => {
    if (isAtEnd.current) place.current.scrollTop = place.current.scrollHeight;
  });
  const onScroll = ({ target }) => {
    isAtEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < NEAR_PX;
  };
  const isBusy = messages.at(-1)?.state === "streaming";
  return html`<div class="messages" ref=${place} onScroll=${onScroll} tabindex="0" aria-label="Conversation">
    <div class="column" role="log" aria-live="polite" aria-busy=${isBusy}>
      ${messages.length === 0 && html`<${Empty} />`}
      ${messages.map(
        (message, index) => html`<${Message} key=${message.id} message=${message} isLast=${index >= messages.length - 2} />`,
      )}
    </div>
  </div>`;
}

// Drawn again only when it has changed: those before a growing answer have not.
function Message({ message, isLast }) {
  return useMemo(
    () =>
      message.role === "user"
        ? html`<${QuestionView} question=${message} isLast=${isLast} />`
        : html`<${AnswerView} answer=${message} isLast=${isLast} />`,
    [message, isLast],
  );
}

function Empty() {
  return html`<div class="empty">
    <h2>Ask the model something</h2>
    <p class="quiet"><kbd>Enter</kbd> sends, <kbd>Esc</kbd> stops, <kbd>/</kbd> comes back to the field.</p>
  </div>`;
}
