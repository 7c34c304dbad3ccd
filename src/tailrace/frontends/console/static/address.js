// What is behind the # of the page's address: a view, and what is open in it, as in #live/ID. So links and "back" work.

import { cell } from "./cell.js";

/** @type {import("./cell.js").Cell<{view: string, item: string}>} */
export const address = cell(read());

addEventListener("hashchange", () => address.set(read()));

function read() {
  const [view, ...rest] = location.hash.slice(1).split("/");
  return { view, item: decoded(rest.join("/")) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // somebody typed it
  }
}

export function addressOf(view, item = "") {
  return `#${view}${item && `/${encodeURIComponent(item)}`}`;
}

export function goTo(view, item = "") {
  location.hash = addressOf(view, item);
}
