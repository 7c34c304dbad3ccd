// The stream of what the server does: a frame a second. It is open only while somebody looks, and comes back by itself.

import { cell } from "../cell.js";
import { serverSentEvents } from "../events.js";
import { ask } from "../server.js";

const PATH = "/console/feed";
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15_000;
const DATE_ERROR_S = 3;
const FINAL = [401, 404]; // statuses after which to ask again would not help

/** @typedef {"closed" | "opening" | "open" | "lost" | "refused"} FeedState */

/** @type {import("../cell.js").Cell<{state: FeedState, words: string}>} with what the server said, if it did */
export const feedState = cell({ state: "closed", words: "" });

const turn = (state, words = "") => feedState.set({ state, words });

/**
 * Calls back with every frame, until the returned function is called. A hidden page gets none: its stream is closed.
 * @param {(frame: object, aheadS: number) => void} take with by how much the server's clock is ahead of ours
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
    turn("closed");
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
    for await (const { frame } of frames(controller.signal)) return frame;
  } finally {
    controller.abort();
  }
  throw new Error("the feed ended before it began");
}

async function keepReading(take, signal) {
  for (let waitMs = FIRST_WAIT_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    let words = "";
    let isFinal = false;
    try {
      for await (const { frame, aheadS } of frames(signal)) {
        turn("open");
        waitMs = FIRST_WAIT_MS / 2; // the next silence is a new one
        take(frame, aheadS);
      }
    } catch (error) {
      words = error.message;
      isFinal = FINAL.includes(error.status);
    }
    if (signal.aborted) return;
    turn(isFinal ? "refused" : "lost", words);
    if (isFinal) return;
    await wait(waitMs, signal);
  }
}

async function* frames(signal) {
  const response = await ask(PATH, { signal });
  const aheadS = clockAheadS(response.headers.get("date"));
  for await (const { event, data } of serverSentEvents(response.body)) {
    if (event === "frame") yield { frame: JSON.parse(data), aheadS };
  }
}

// The header is of whole seconds, and may be one old: less than that says nothing.
function clockAheadS(date) {
  const aheadS = (Date.parse(date ?? "") - Date.now()) / 1e3;
  return Math.abs(aheadS) > DATE_ERROR_S ? aheadS : 0;
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
