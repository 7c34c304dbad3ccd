// The last ten minutes of what frames said, as long as the page is there. Plain data; nothing is changed in place.

const KEPT_S = 600;
const MAX_STEPS = 600;

/**
 * @typedef {{atS: number, rates: object | null, classes: object[]}} Point of a second; without rates: nobody looked
 * @typedef {{atS: number, words: string}} Mark of an event
 * @typedef {{points: Point[], steps: object[], marks: Mark[]}} History
 */

/** @type {History} */
export const NO_HISTORY = { points: [], steps: [], marks: [] };

/**
 * @param {History} history @param {object} frame @param {number} atS
 * @param {number} clockS what to add to a time of the server's clock
 * @returns {History}
 */
export function withFrame(history, frame, atS, clockS) {
  const { rates, classes } = frame;
  return {
    points: [...history.points.filter((point) => point.atS > atS - KEPT_S), { atS, rates, classes }],
    steps: withSteps(history.steps, frame.steps, atS),
    marks: frame.events.map(({ at_s, message }) => ({ atS: at_s + clockS, words: message })),
  };
}

/** With a gap from here on: lines are not drawn over what nobody saw. */
export function withGap(history, atS) {
  if (!history.points.at(-1)?.rates) return history;
  return { ...history, points: [...history.points, { atS, rates: null, classes: [] }] };
}

// Of an engine that was started again, the ids begin again.
function withSteps(steps, more, atS) {
  const last = steps.at(-1)?.id ?? -1;
  const isOther = more.length > 0 && more.at(-1).id < last;
  const fresh = isOther ? more : more.filter((step) => step.id > last);
  const placed = fresh.map((step) => ({ ...step, atS: atS - step.ago_s }));
  return [...(isOther ? [] : steps), ...placed].slice(-MAX_STEPS);
}

/** One number of each point; null where there is none. */
export function line(points, of) {
  return points.map((point) => (point.rates ? (of(point) ?? null) : null));
}

/** One number of a service class at each point. */
export function classLine(points, name, of) {
  return line(points, ({ classes }) => {
    const found = classes.find((each) => each.name === name);
    return found ? of(found) : null;
  });
}

/** How much of the past is worth drawing: a minute, or as much more as there is. */
export function windowS(points) {
  const span = points.length ? points.at(-1).atS - points[0].atS : 0;
  return [60, 120, 300].find((each) => span <= each) ?? KEPT_S;
}
