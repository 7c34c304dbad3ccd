// One request, from its head to its end: a bar of its parts up to the first token, one of all of it, and its cache.

import { cacheWords } from "./cache_words.js";
import { goTo } from "../address.js";
import { count, plural, seconds } from "../format.js";
import { ask } from "../server.js";
import { html, useEffect, useRef, useState } from "../vendor/preact.js";

const AGAIN_MS = 1000;
const COLOURS = {
  accept: "quiet",
  tokenise: "accent",
  to_engine: "quiet",
  queue: "series-2",
  fetch: "series-4",
  prefill: "series-3",
  between: "series-2",
  from_engine: "quiet",
  text: "accent",
  write: "quiet",
  decode: "series-1",
};
const WORDS = { to_engine: "to the engine", from_engine: "from the engine", between: "between chunks", prefill: "prompt" };

/** @param {{id: string}} props what it is at first; while the life is open, it stays that */
export function Life(props) {
  const [id] = useState(props.id);
  const dialog = useRef(null);
  const [life, setLife] = useState(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => dialog.current.showModal(), []);
  useEffect(() => follow(id, setLife, setTrouble), []);
  return html`<dialog class="life" ref=${dialog} aria-labelledby="life-title" onClose=${() => goTo("live")}>
    <header>
      <h2 id="life-title">Request <code>${id}</code></h2>
      <button type="button" onClick=${() => dialog.current.close()}>Close</button>
    </header>
    ${trouble && html`<p class="trouble" role="alert">${trouble}</p>`} ${life && html`<${Whole} life=${life} />`}
  </dialog>`;
}

/** Asks for the life, again and again until it has ended. Returns what stops that. */
function follow(id, tell, fail) {
  const controller = new AbortController();
  let timer = null;
  const look = async () => {
    try {
      const response = await ask(`/console/requests/${encodeURIComponent(id)}`, { signal: controller.signal });
      const life = await response.json();
      tell(life);
      fail("");
      if (life.took_s === null) timer = setTimeout(look, AGAIN_MS);
    } catch (error) {
      if (controller.signal.aborted) return;
      fail(error.message);
      if (!error.status) timer = setTimeout(look, AGAIN_MS); // nobody answered: it may be being started again
    }
  };
  look();
  return () => {
    controller.abort();
    clearTimeout(timer);
  };
}

function Whole({ life }) {
  const parts = life.parts;
  const beforeDecode = parts.filter(({ name }) => name !== "decode");
  return html`
    <p class="quiet">
      ${life.endpoint}, ${life.class}, ${life.error ?? life.finish_reason ?? "still here"}, took ${seconds(life.took_s)},
      ${" "}${count(life.num_output_tokens)} tokens
      ${life.num_preemptions > 0 && `, sent back ${plural(life.num_preemptions, "time")}`}
      ${life.trace && html`, trace <code>${life.trace}</code>`}
    </p>
    ${beforeDecode.length > 0 && html`<h3>Up to its first token: ${seconds(beforeDecode.at(-1).end_s)}</h3><${Bar} parts=${beforeDecode} />`}
    ${beforeDecode.length < parts.length && html`<h3>All of it: ${seconds(parts.at(-1).end_s)}</h3><${Bar} parts=${parts} />`}
    <${Parts} parts=${parts} />
    <h3>Its cache</h3>
    <p>${cacheWords(life)}</p>
  `;
}

function Bar({ parts }) {
  const wholeS = Math.max(...parts.map(({ end_s }) => end_s)) || 1;
  const style = ({ name, start_s, end_s }) => ({
    left: `${(start_s / wholeS) * 100}%`,
    width: `max(1px, ${((end_s - start_s) / wholeS) * 100}%)`,
    background: `var(--${COLOURS[name] ?? "quiet"})`,
  });
  return html`<div class="life-bar" aria-hidden="true">${parts.map((part) => html`<i style=${style(part)} title=${words(part)}></i>`)}</div>`;
}

function Parts({ parts }) {
  return html`<ol class="parts">
    ${parts.map(
      (part) => html`<li>
        <i class="swatch" style=${{ color: `var(--${COLOURS[part.name] ?? "quiet"})` }}></i>${words(part)}
        <span class="number">${seconds(part.end_s - part.start_s)}</span>
      </li>`,
    )}
  </ol>`;
}

function words({ name, tokens }) {
  return (WORDS[name] ?? name) + (tokens ? ` of ${count(tokens)}` : "");
}
