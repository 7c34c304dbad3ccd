// What the server says of itself before anybody chats: its model and its service classes.

import { cell } from "../cell.js";
import { firstFrame } from "../live/feed.js";
import { ask } from "../server.js";

export const model = cell("");

/** @type {import("../cell.js").Cell<string[]>} */
export const classNames = cell([]);

/** Why the server could not be asked; empty: it could. */
export const trouble = cell("");

export async function learn() {
  try {
    const { data } = await (await ask("/v1/models")).json();
    model.set(data[0]?.id ?? "");
    classNames.set((await firstFrame()).classes.map((each) => each.name));
    trouble.set("");
  } catch (error) {
    trouble.set(error.message);
  }
}
