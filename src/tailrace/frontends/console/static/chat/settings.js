// How answers are sampled. An empty setting leaves it to the server, whose default then holds.

import { cell } from "../cell.js";

const PLACE = "tailrace.settings";

/**
 * @typedef {object} Settings
 * @property {string} system
 * @property {string} temperature
 * @property {string} topP
 * @property {string} maxTokens
 * @property {string} seed
 * @property {string} stop one a line
 * @property {string} className
 * @property {"" | "enabled" | "disabled"} thinking
 */

/** @type {Settings} */
const DEFAULTS = {
  system: "",
  temperature: "",
  topP: "",
  maxTokens: "",
  seed: "",
  stop: "",
  className: "",
  thinking: "",
};

export const settings = cell({ ...DEFAULTS, ...stored() });

function stored() {
  try {
    return JSON.parse(localStorage.getItem(PLACE)) ?? {};
  } catch {
    return {};
  }
}

export function change(name, value) {
  settings.set({ ...settings.get(), [name]: value });
  keep();
}

export function reset() {
  settings.set({ ...DEFAULTS });
  keep();
}

function keep() {
  try {
    localStorage.setItem(PLACE, JSON.stringify(settings.get()));
  } catch {
    // they hold for this page alone
  }
}

/** How many of them are not the server's own. */
export function numChanged(chosen) {
  return Object.keys(DEFAULTS).filter((name) => chosen[name] !== DEFAULTS[name]).length;
}

/**
 * The body of a chat completion. What the reader has left open is not in it.
 * @param {Settings} chosen
 */
export function requestBody(chosen, model, messages) {
  const wished = {
    temperature: number(chosen.temperature),
    top_p: number(chosen.topP),
    max_tokens: number(chosen.maxTokens),
    seed: number(chosen.seed),
    stop: lines(chosen.stop),
    service_tier: chosen.className || undefined,
    thinking: chosen.thinking ? { type: chosen.thinking } : undefined,
  };
  const said = Object.entries(wished).filter(([, value]) => value !== undefined);
  return { model: model || undefined, messages, ...Object.fromEntries(said), stream: true, stream_options: { include_usage: true } };
}

function number(typed) {
  return typed.trim() === "" ? undefined : Number(typed);
}

function lines(typed) {
  const found = typed.split("\n").filter((line) => line !== "");
  return found.length ? found : undefined;
}
