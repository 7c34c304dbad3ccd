// The line above everything: which server this is, whether it is there, and its rates.

import { feedState } from "./feed.js";
import { useCell } from "../cell.js";
import { count, digits, duration } from "../format.js";
import { html } from "../vendor/preact.js";

const STATES = {
  closed: "Paused",
  opening: "Connecting",
  open: "Live",
  lost: "Lost; trying again",
  refused: "The server does not show its numbers here",
};

/** @param {{frame: object | null}} props */
export function Headline({ frame }) {
  const { state, words } = useCell(feedState);
  return html`<div class="headline">
    <p class="state" data-state=${state} role="status">${state === "open" && !frame?.is_ready ? "Starting" : STATES[state]}${words && `: ${words}`}</p>
    ${frame && html`<p class="quiet">${identity(frame)}</p>`}
    ${frame &&
    html`<dl class="tiles">
      ${tiles(frame).map(([name, value]) => html`<div><dt>${name}</dt><dd class="number">${value}</dd></div>`)}
    </dl>`}
  </div>`;
}

function identity({ model, version, uptime_s, num_api_processes }) {
  return `${model} · Tailrace ${version} · up ${duration(uptime_s)} · ${num_api_processes} API process${num_api_processes === 1 ? "" : "es"}`;
}

function tiles({ rates, classes }) {
  const total = (name) => classes.reduce((sum, each) => sum + each[name], 0);
  return [
    ["output tok/s", digits(rates.output_tokens_per_s)],
    ["prompt tok/s", digits(rates.prompt_tokens_per_s)],
    ["running", count(total("running"))],
    ["waiting", count(total("waiting"))],
    ["requests/s", digits(rates.requests_per_s)],
    ["refused/s", digits(rates.refused_per_s)],
    ["steps/s", digits(rates.steps_per_s)],
  ];
}
