// The colours of the style sheet, for what is drawn on a canvas.

import { cell } from "../cell.js";

/** Counts up whenever the page turns light or dark. */
export const turns = cell(0);

const turned = () => turns.set(turns.get() + 1);
addEventListener("themechange", turned);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", turned);

/** @param {string} name such as "line" or "series-1" */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
