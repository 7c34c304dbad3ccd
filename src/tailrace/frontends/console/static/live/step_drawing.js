// Steps on a canvas, one column each: as high as it took, coloured by what it computed, with a mark at the predicted time.

import { colour } from "./colours.js";
import { seconds } from "../format.js";

export const COLUMN_PX = 5;
export const HEIGHT_PX = 130;
export const DECODE_COLOUR = "series-1";
export const PROMPT_COLOURS = ["series-2", "series-3", "series-4"];

const GAP_PX = 1;
const LABEL_PX = 14;
const MOST_OF_MEDIAN = 6; // columns are cut there: one long step should not make all others flat

/** @param {HTMLCanvasElement} canvas @param {object[]} steps @param {number} width @param {object | null} chosen */
export function drawSteps(canvas, steps, width, chosen) {
  const pen = opened(canvas, width);
  const topS = top(steps);
  const height = (s) => (Math.min(s, topS) / topS) * (HEIGHT_PX - LABEL_PX);
  for (const [place, step] of steps.entries()) {
    const x = place * COLUMN_PX;
    if (step === chosen) fill(pen, "accent-soft", x - GAP_PX, HEIGHT_PX, COLUMN_PX + GAP_PX, HEIGHT_PX);
    drawColumn(pen, step, x, height);
    if (step.took_s > topS) write(pen, "▲", x - 1);
  }
  const label = seconds(topS);
  fill(pen, "sunk", 0, LABEL_PX - 1, pen.measureText(label).width + 6, LABEL_PX - 1);
  write(pen, label, 2);
}

function opened(canvas, width) {
  canvas.width = width * devicePixelRatio;
  canvas.height = HEIGHT_PX * devicePixelRatio;
  const pen = canvas.getContext("2d");
  pen.scale(devicePixelRatio, devicePixelRatio);
  pen.font = "11px system-ui, sans-serif";
  return pen;
}

function top(steps) {
  const times = steps.flatMap(({ took_s, predicted_s }) => [took_s, predicted_s ?? 0]).sort((one, other) => one - other);
  const median = times[times.length >> 1] ?? 0;
  return Math.max(Math.min(times.at(-1) ?? 0, median * MOST_OF_MEDIAN), 1e-4);
}

function drawColumn(pen, step, x, height) {
  const size = height(step.took_s);
  let y = HEIGHT_PX;
  for (const [name, share] of parts(step)) {
    fill(pen, name, x, y, COLUMN_PX - GAP_PX, size * share);
    y -= size * share;
  }
  if (step.predicted_s) fill(pen, "ink", x, HEIGHT_PX - height(step.predicted_s) + 1, COLUMN_PX - GAP_PX, 1.5);
}

/** What a step's tokens were for: [colour, share], from below. */
function parts({ num_decodes, num_prompt_tokens, prompts }) {
  const total = num_decodes + num_prompt_tokens || 1;
  const known = prompts.reduce((sum, [, tokens]) => sum + tokens, 0);
  const chunks = prompts.map(([id, tokens]) => [promptColour(id), tokens / total]);
  return [[DECODE_COLOUR, num_decodes / total], ...chunks, [PROMPT_COLOURS[0], (num_prompt_tokens - known) / total]];
}

/** The same request has the same colour in every step. */
function promptColour(id) {
  let sum = 0;
  for (const character of id) sum = (sum * 31 + character.codePointAt(0)) % 9973;
  return PROMPT_COLOURS[sum % PROMPT_COLOURS.length];
}

function fill(pen, name, x, bottom, width, height) {
  pen.fillStyle = cached(name);
  pen.fillRect(x, bottom - height, width, height);
}

function write(pen, text, x) {
  pen.fillStyle = cached("quiet");
  pen.fillText(text, x, 10);
}

// Styles are asked for once a drawing, not once a column.
const known = new Map();
function cached(name) {
  if (!known.size) queueMicrotask(() => known.clear());
  if (!known.has(name)) known.set(name, colour(name));
  return known.get(name);
}
