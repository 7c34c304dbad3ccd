// Requests to the server that this page came from, with the reader's key. What fails is a ServerError that can be read.

import { askForKey, key } from "./key.js";

export class ServerError extends Error {
  /** @param {string} message @param {{status?: number, retryAfterS?: number | null, code?: string | null}} [more] */
  constructor(message, { status = 0, retryAfterS = null, code = null } = {}) {
    super(message);
    this.status = status;
    this.retryAfterS = retryAfterS;
    this.code = code;
  }
}

/**
 * The response to a request, if it is a good one. Asks for a key when the server wants one, and tries again with it.
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Response>}
 */
export async function ask(path, options = {}) {
  for (;;) {
    const response = await sent(path, options);
    if (response.ok) return response;
    const error = await failure(response);
    const reason = key.get() ? `The server did not take this key: ${error.message}` : error.message;
    if (error.status !== 401 || !(await askForKey(reason))) throw error;
  }
}

async function sent(path, options) {
  const headers = { ...options.headers, ...(key.get() && { Authorization: `Bearer ${key.get()}` }) };
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server does not answer. Is it still running?");
  }
}

async function failure(response) {
  const said = await response.json().catch(() => ({}));
  return new ServerError(said.error?.message ?? `The server answered ${response.status}.`, {
    status: response.status,
    retryAfterS: seconds(response.headers.get("retry-after")),
    code: said.error?.code,
  });
}

function seconds(header) {
  return header && Number.isFinite(Number(header)) ? Number(header) : null;
}
