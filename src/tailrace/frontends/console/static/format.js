// Numbers as people read them. What is not known is a dash.

const DASH = "–";
const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** 0.00412 -> "4.1 ms" */
export function seconds(value) {
  if (!isKnown(value)) return DASH;
  if (value < 1e-3) return `${digits(value * 1e6)} µs`;
  if (value < 1) return `${digits(value * 1e3)} ms`;
  return value < 100 ? `${digits(value)} s` : duration(value);
}

/** 3720 -> "1 h 2 min" */
export function duration(value) {
  if (!isKnown(value)) return DASH;
  const minutes = Math.floor(value / 60);
  if (minutes < 1) return `${Math.floor(value)} s`;
  if (minutes < 60) return `${minutes} min ${Math.floor(value % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** 0.934 -> "93%" */
export function percent(value) {
  if (!isKnown(value)) return DASH;
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
