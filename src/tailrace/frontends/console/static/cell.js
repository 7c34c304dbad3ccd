// A value that several parts of the page watch.

import { useEffect, useState } from "./vendor/preact.js";

/**
 * @template T
 * @typedef {{get: () => T, set: (value: T) => void, watch: (watcher: (value: T) => void) => () => void}} Cell
 */

/**
 * @template T
 * @param {T} first
 * @returns {Cell<T>}
 */
export function cell(first) {
  let value = first;
  const watchers = new Set();
  return {
    get: () => value,
    set(next) {
      value = next;
      for (const watcher of [...watchers]) watcher(value);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** The cell's value; the component that asks is drawn again when it changes. */
export function useCell(watched) {
  const [, redraw] = useState(0);
  useEffect(() => watched.watch(() => redraw((count) => count + 1)), [watched]);
  return watched.get();
}
