// The stream of what the server does: a frame a second. It is open only while somebody looks, and comes back by itself.

import { cell } from "../cell.js";
import { serverSentEvents } from "../events.js";
import { ask } from "../server.js";

const PATH = "/console/feed";
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15_000;

/** @typedef {"closed" | "opening" | "open" | "lost" | "refused"} FeedState */

/** @type {import("../cell.js").Cell<FeedState>} */
export const feedState = cell("closed");

/**
 * Calls back with every frame, until the returned function is called. A hidden page gets none: its stream is closed.
 * @param {(frame: object) => void} take
 */
export function follow(take) {
  let controller = null;
  const look = () => {
    const isWanted = document.visibilityState === "visible";
    if (isWanted && !controller) {
      controller = new AbortController();
      keepReading(take, controller.signal);
    } else if (!isWanted) close();
  };
  const close = () => {
    controller?.abort();
    controller = null;
    feedState.set("closed");
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    close();
  };
}

/** The frame that every feed begins with. */
export async function firstFrame() {
  const controller = new AbortController();
  try {
    for await (const frame of frames(controller.signal)) return frame;
  } finally {
    controller.abort();
  }
  throw new Error("the feed ended before it began");
}

async function keepReading(take, signal) {
  for (let waitMs = FIRST_WAIT_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    try {
      for await (const frame of frames(signal)) {
        feedState.set("open");
        waitMs = FIRST_WAIT_MS / 2; // the next silence is a new one
        take(frame);
      }
    } catch (error) {
      if (error.status === 401 || error.status === 404) {
        if (!signal.aborted) feedState.set("refused"); // asking again would not help
        return;
      }
    }
    if (signal.aborted) return;
    feedState.set("lost");
    await wait(waitMs, signal);
  }
}

async function* frames(signal) {
  const response = await ask(PATH, { signal });
  for await (const { event, data } of serverSentEvents(response.body)) {
    if (event === "frame") yield JSON.parse(data);
  }
}

function wait(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
