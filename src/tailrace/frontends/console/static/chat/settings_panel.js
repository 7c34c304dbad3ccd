// The form of the settings.

import { classNames, model } from "./models.js";
import { change, numChanged, reset, settings } from "./settings.js";
import { useCell } from "../cell.js";
import { html } from "../vendor/preact.js";

const THINKING = [
  ["", "The model's choice"],
  ["enabled", "On"],
  ["disabled", "Off"],
];

export function SettingsPanel() {
  const chosen = useCell(settings);
  const classes = useCell(classNames);
  const input = (name) => ({ name, value: chosen[name], onInput: (event) => change(name, event.target.value) });
  const numeric = (name, more) => html`<input type="number" placeholder="default" ...${more} ...${input(name)} />`;
  return html`<form class="settings" aria-label="Settings" onSubmit=${(event) => event.preventDefault()}>
    <p class="quiet">Model <code>${useCell(model) || "–"}</code></p>
    <label>System prompt <textarea rows="4" ...${input("system")} /></label>
    <label>Thinking <${Select} ...${input("thinking")} options=${THINKING} /></label>
    <div class="pair">
      <label>Temperature ${numeric("temperature", { min: 0, max: 2, step: 0.1 })}</label>
      <label>Top p ${numeric("topP", { min: 0, max: 1, step: 0.05 })}</label>
      <label>Most tokens ${numeric("maxTokens", { min: 1, step: 1 })}</label>
      <label>Seed ${numeric("seed", { step: 1 })}</label>
    </div>
    <label>Stop at, one a line <textarea rows="2" ...${input("stop")} /></label>
    <label>
      Service class
      <${Select} ...${input("className")} options=${[["", "The server's choice"], ...classes.map((name) => [name, name])]} />
    </label>
    <button type="button" disabled=${!numChanged(chosen)} onClick=${reset}>Back to the defaults</button>
  </form>`;
}

function Select({ name, value, onInput, options }) {
  return html`<select name=${name} onChange=${onInput}>
    ${options.map(([each, shown]) => html`<option value=${each} selected=${each === value}>${shown}</option>`)}
  </select>`;
}
