// Numbers as people read them. What is not known is a dash.

const DASH = "–";
const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** 0.00412 -> "4.1 ms" */
export function seconds(value) {
  if (!isKnown(value)) return DASH;
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${digits(value * 1e6)} µs`;
  if (value < 1) return `${digits(value * 1e3)} ms`;
  return value < 100 ? `${digits(value)} s` : duration(value);
}

const UNITS = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** 3720 -> "1 h 2 min": the two largest units that say something */
export function duration(value) {
  if (!isKnown(value)) return DASH;
  const first = Math.max(0, UNITS.findIndex(([, size]) => value >= size));
  const parts = UNITS.slice(first, first + 2).map(([unit, size]) => {
    const number = Math.floor(value / size);
    value -= number * size;
    return number && `${number} ${unit}`;
  });
  return parts.filter(Boolean).join(" ") || "0 s";
}

/** 0.934 -> "93%" */
export function percent(value) {
  if (!isKnown(value)) return DASH;
  if (value > 0 && value < 0.0005) return "<0.1%";
  return value > 0 && value < 0.1 ? `${(value * 100).toFixed(1)}%` : `${Math.round(value * 100)}%`;
}

/** 1234567 -> "1.2 MB"; of 1000, as in what makers of memory and disks say of rates, not of 1024. */
export function bytes(value) {
  if (!isKnown(value)) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${unit ? digits(value) : value} ${units[unit]}`;
}

/** 12345 -> "12,345" */
export function count(value) {
  return isKnown(value) ? Math.round(value).toLocaleString("en") : DASH;
}

/** 3 significant digits at most, and no more than one behind the point from 10 on. */
export function digits(value) {
  if (!isKnown(value)) return DASH;
  if (Math.abs(value) >= 100) return count(value);
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(value === 0 ? 0 : 2);
}

/** "1 token", "2 tokens" */
export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
