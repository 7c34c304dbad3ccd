// The API key of a server that asks for one. It lives as long as the tab.

import { cell } from "./cell.js";

const PLACE = "tailrace.key";

export const key = cell(sessionStorage.getItem(PLACE) ?? "");

/** Why the reader is being asked for a key; empty: nobody asks. */
export const question = cell("");

let waiting = [];

/** Asks the reader for a key. Resolves to whether there is one now. */
export function askForKey(reason) {
  question.set(reason);
  return new Promise((resolve) => waiting.push(resolve));
}

/** The reader's answer; empty: they have none. */
export function answerKey(typed) {
  if (typed) {
    key.set(typed);
    sessionStorage.setItem(PLACE, typed);
  }
  question.set("");
  for (const resolve of waiting) resolve(Boolean(typed));
  waiting = [];
}
