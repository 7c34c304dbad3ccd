// One answer, from its request to its last token.

import { withChunk } from "./answer.js";
import { serverSentEvents } from "../events.js";
import { ask, ServerError } from "../server.js";

const PATH = "/v1/chat/completions";

/**
 * Streams an answer. `tell` is called with each state of it; the last one is never "streaming".
 * To abort the signal closes the connection, at which the server stops to compute.
 * @param {import("./answer.js").Answer} answer
 * @param {AbortSignal} signal
 * @param {(answer: import("./answer.js").Answer) => void} tell
 */
export async function complete(answer, signal, tell) {
  let latest = answer;
  const update = (next) => tell((latest = next));
  try {
    await stream(answer, signal, update, () => latest);
    update({ ...latest, state: "done" });
  } catch (error) {
    if (signal.aborted) update({ ...latest, state: "stopped" });
    else update({ ...latest, state: "failed", error: readable(error) });
  }
}

async function stream(answer, signal, update, latest) {
  const sentMs = performance.now();
  const body = JSON.stringify(answer.request);
  const headers = { "Content-Type": "application/json" };
  const response = await ask(PATH, { method: "POST", headers, body, signal });
  update({
    ...latest(),
    requestId: response.headers.get("x-request-id"),
    className: response.headers.get("x-service-class"),
  });
  let isWhole = false;
  for await (const { data } of serverSentEvents(response.body)) {
    if (data === "[DONE]") isWhole = true;
    else update(withChunk(latest(), checked(JSON.parse(data)), (performance.now() - sentMs) / 1e3));
  }
  if (!isWhole) throw new ServerError("The stream broke off before the answer was whole.");
}

function checked(chunk) {
  if (chunk.error) throw new ServerError(chunk.error.message, { code: chunk.error.code });
  return chunk;
}

function readable(error) {
  const isOurs = error instanceof ServerError;
  const message = isOurs ? error.message : `The connection was lost: ${error.message}`;
  const retryAtMs = error.retryAfterS === null || !isOurs ? null : Date.now() + error.retryAfterS * 1e3;
  return { message, status: error.status ?? 0, retryAtMs };
}
