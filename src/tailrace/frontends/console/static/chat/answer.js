// An answer as it grows out of the chunks of a stream. Times are seconds since its request was sent, as seen here.

import { newId } from "./conversation.js";

/**
 * @typedef {{name: string, arguments: string}} Call
 * @typedef {object} Answer
 * @property {"assistant"} role
 * @property {string} id
 * @property {"streaming" | "done" | "stopped" | "failed"} state
 * @property {string} text
 * @property {string} reasoning
 * @property {Call[]} calls
 * @property {number | null} firstS when its first token was here
 * @property {number | null} textS when its first token that is no reasoning was here
 * @property {number | null} lastS
 * @property {number} numPieces
 * @property {object | null} usage what the server counted
 * @property {string | null} className of the service class, where the server said it
 * @property {string | null} finishReason
 * @property {string | null} requestId
 * @property {{message: string, status: number, retryAtMs: number | null} | null} error
 * @property {object} request the body that it answers
 */

/** @returns {Answer} */
export function emptyAnswer() {
  return {
    role: "assistant",
    id: newId(),
    state: "streaming",
    text: "",
    reasoning: "",
    calls: [],
    firstS: null,
    textS: null,
    lastS: null,
    numPieces: 0,
    usage: null,
    className: null,
    finishReason: null,
    requestId: null,
    error: null,
    request: {},
  };
}

/**
 * The answer with one more chunk in it.
 * @param {Answer} answer
 * @param {object} chunk
 * @param {number} atS
 * @returns {Answer}
 */
export function withChunk(answer, chunk, atS) {
  const next = { ...answer, usage: chunk.usage ?? answer.usage };
  for (const choice of chunk.choices) {
    next.finishReason = choice.finish_reason ?? next.finishReason;
    addDelta(next, choice.delta, atS);
  }
  return next;
}

function addDelta(answer, delta, atS) {
  const reasoning = delta.reasoning_content ?? "";
  const text = delta.content ?? "";
  const calls = delta.tool_calls ?? [];
  if (!reasoning && !text && !calls.length) return;
  answer.numPieces += 1;
  answer.firstS ??= atS;
  answer.lastS = atS;
  if (text || calls.length) answer.textS ??= atS;
  answer.reasoning += reasoning;
  answer.text += text;
  answer.calls = calls.reduce(withCall, answer.calls);
}

function withCall(calls, delta) {
  const before = calls[delta.index] ?? { name: "", arguments: "" };
  const more = delta.function ?? {};
  const call = { name: before.name + (more.name ?? ""), arguments: before.arguments + (more.arguments ?? "") };
  return Object.assign([...calls], { [delta.index]: call });
}

/** Tokens a second after the first one; null while that says nothing. */
export function tokensPerS(answer) {
  const tokens = answer.usage?.completion_tokens ?? answer.numPieces;
  const tookS = answer.lastS - answer.firstS;
  return tokens > 1 && tookS > 0 ? (tokens - 1) / tookS : null;
}
