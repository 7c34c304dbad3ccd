// The latest frame and what came before it, for whoever draws them.

import { feedState, follow } from "./feed.js";
import { NO_HISTORY, withFrame, withGap } from "./history.js";
import { cell } from "../cell.js";

/** @type {import("../cell.js").Cell<{frame: object | null, history: import("./history.js").History}>} */
export const watched = cell({ frame: null, history: NO_HISTORY });

const nowS = () => performance.now() / 1e3;

/** Watches the server until the returned function is called. */
export function watch() {
  const unfollow = follow((frame, aheadS) => {
    const clockS = nowS() - (Date.now() / 1e3 + aheadS); // from the server's clock to that of the history
    watched.set({ frame, history: withFrame(watched.get().history, frame, nowS(), clockS) });
  });
  const unwatch = feedState.watch(({ state }) => {
    if (state === "open") return;
    const { frame, history } = watched.get();
    watched.set({ frame, history: withGap(history, nowS()) });
  });
  return () => {
    unfollow();
    unwatch();
  };
}
