// A conversation as plain data, and the few ways in which it changes. Nothing here changes a conversation in place.

/**
 * @typedef {{role: "user", id: string, text: string}} Question
 * @typedef {import("./answer.js").Answer} Answer
 * @typedef {{id: string, changedMs: number, messages: (Question | Answer)[]}} Conversation
 */

const TITLE_CHARS = 60;

/** An id that is not known outside of this browser. Without TLS there is no crypto.randomUUID. */
export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @returns {Conversation} */
export function emptyConversation(nowMs) {
  return { id: newId(), changedMs: nowMs, messages: [] };
}

/** @param {Conversation} conversation */
export function titleOf(conversation) {
  const first = conversation.messages[0]?.text.trim().split("\n")[0] ?? "";
  if (!first) return "New conversation";
  return first.length > TITLE_CHARS ? first.slice(0, TITLE_CHARS - 1) + "…" : first;
}

/** With a question, and an answer that is still to come. */
export function asked(conversation, text, answer, nowMs) {
  const question = { role: "user", id: newId(), text };
  return { ...conversation, changedMs: nowMs, messages: [...conversation.messages, question, answer] };
}

/** Without its last question and what was said to it. */
export function withoutLastTurn(conversation) {
  const last = conversation.messages.findLastIndex((message) => message.role === "user");
  return { ...conversation, messages: conversation.messages.slice(0, Math.max(last, 0)) };
}

/** @returns {string | null} the text of the last question */
export function lastQuestion(conversation) {
  return conversation.messages.findLast((message) => message.role === "user")?.text ?? null;
}

/** With an answer in the place of the one that has the same id. */
export function withAnswer(conversation, answer) {
  const messages = conversation.messages.map((message) => (message.id === answer.id ? answer : message));
  return { ...conversation, messages };
}

/** What the server is told of it, up to an answer that is to come. Answers that said nothing are left out. */
export function wireMessages(conversation, answerId, system) {
  const end = conversation.messages.findIndex((message) => message.id === answerId);
  const before = conversation.messages.slice(0, end);
  const said = before.filter((message, index) => (message.role === "user" ? !isRefused(before[index + 1]) : message.text));
  const spoken = said.map(({ role, text }) => ({ role, content: text }));
  return system.trim() ? [{ role: "system", content: system }, ...spoken] : spoken;
}

// What was asked with it would only fail again, as a question that is too long does, and all that is asked after it.
function isRefused(answer) {
  return answer?.state === "failed" && !answer.text;
}
