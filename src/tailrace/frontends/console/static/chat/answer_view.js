// An answer: its reasoning, its text, the calls it makes, what went wrong, and what it took.

import { tokensPerS } from "./answer.js";
import { regenerate } from "./desk.js";
import { Markdown } from "./markdown_view.js";
import { curl, python } from "./snippet.js";
import { addressOf } from "../address.js";
import { CopyButton } from "../copy_button.js";
import { count, digits, plural, seconds } from "../format.js";
import { key } from "../key.js";
import { html, useEffect, useState } from "../vendor/preact.js";

/** @param {{answer: import("./answer.js").Answer, isLast: boolean}} props */
export function AnswerView({ answer, isLast }) {
  const isGrowing = answer.state === "streaming";
  return html`
    <article class="answer" aria-label="Answer" aria-busy=${isGrowing}>
      ${answer.reasoning && html`<${Reasoning} answer=${answer} />`}
      ${answer.text && html`<${Markdown} text=${answer.text} isGrowing=${isGrowing} />`}
      ${answer.calls.map((call, index) => html`<${CallBox} key=${index} call=${call} />`)}
      ${isGrowing && answer.firstS === null && html`<p class="waiting quiet">Waiting for the first token</p>`}
      ${answer.error && html`<${Failure} error=${answer.error} isLast=${isLast} />`}
      ${!isGrowing && html`<${Footer} answer=${answer} isLast=${isLast} />`}
    </article>
  `;
}

// Open while nothing but thoughts comes, folded once there is an answer, unless the reader has said otherwise.
function Reasoning({ answer }) {
  const [wish, setWish] = useState(null);
  const isThinking = answer.state === "streaming" && answer.textS === null;
  const isOpen = wish ?? isThinking;
  const until = answer.textS ?? answer.lastS;
  const toggle = (event) => {
    event.preventDefault();
    setWish(!isOpen);
  };
  return html`<details class="reasoning" open=${isOpen}>
    <summary onClick=${toggle}>${isThinking ? "Thinking" : `Thought for ${seconds(until - answer.firstS)}`}</summary>
    <${Markdown} text=${answer.reasoning} isGrowing=${answer.state === "streaming"} />
  </details>`;
}

function CallBox({ call }) {
  return html`<div class="call">
    <p><span class="quiet">Call of</span> <code>${call.name}</code></p>
    <pre tabindex="0"><code>${indented(call.arguments)}</code></pre>
  </div>`;
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // not whole yet
  }
}

function Failure({ error, isLast }) {
  const waitS = useCountdown(error.retryAtMs);
  const title = error.status === 429 ? "The server has no room for this right now." : "This did not work.";
  return html`<div class="failure" role="alert">
    <p><strong>${title}</strong> ${error.message}</p>
    ${isLast &&
    html`<button type="button" disabled=${waitS > 0} onClick=${regenerate}>
      ${waitS > 0 ? `Try again in ${waitS} s` : "Try again"}
    </button>`}
  </div>`;
}

/** Whole seconds until a time; 0 when it has come. */
function useCountdown(untilMs) {
  const leftS = () => (untilMs === null ? 0 : Math.max(0, Math.ceil((untilMs - Date.now()) / 1e3)));
  const [left, setLeft] = useState(leftS);
  useEffect(() => {
    const timer = setInterval(() => setLeft(leftS()), 250);
    return () => clearInterval(timer);
  }, [untilMs]);
  return left;
}

function Footer({ answer, isLast }) {
  const make = (maker) => () => maker(answer.request, location.origin, Boolean(key.get()));
  return html`<footer>
    <p class="facts">${facts(answer).map(([name, value]) => html`<span title=${name}>${value}</span>`)}</p>
    <p class="tools">
      ${answer.text && html`<${CopyButton} text=${() => answer.text}>Copy</${CopyButton}>`}
      ${isLast && html`<button type="button" class="plain" onClick=${regenerate}>Regenerate</button>`}
      ${answer.requestId && html`<a class="plain" href=${addressOf("live", answer.requestId)} title="Where its time went">Life</a>`}
      <${CopyButton} text=${make(curl)} title="Copy this request as a curl command">curl</${CopyButton}>
      <${CopyButton} text=${make(python)} title="Copy this request as Python">Python</${CopyButton}>
    </p>
  </footer>`;
}

/** What is known of how it came about: [what it is, the words]. */
function facts(answer) {
  const { usage, firstS, className, finishReason, state } = answer;
  const rate = tokensPerS(answer);
  return [
    firstS !== null && ["Time to the first token, as seen here", `TTFT ${seconds(firstS)}`],
    rate !== null && ["Tokens a second after the first", `${digits(rate)} tok/s`],
    firstS !== null && ["Tokens of the answer", tokens(answer)],
    usage && ["Tokens of the prompt, and those that needed no computing, by level", promptTokens(usage)],
    className && ["Service class", className],
    ["How it ended", state === "done" ? (finishReason ?? "done") : state],
  ].filter(Boolean);
}

// Of an answer that was stopped, only the pieces of its stream are known.
function tokens({ usage, numPieces }) {
  return usage ? plural(usage.completion_tokens, "token") : `about ${plural(numPieces, "token")}`;
}

function promptTokens(usage) {
  const { cached_tokens: cached, cached_tokens_details: byLevel, cache_miss_reason: reason } = usage.prompt_tokens_details;
  const levels = Object.entries(byLevel ?? {}).map(([level, found]) => `${level} ${count(found)}`);
  const where = levels.length ? ` (${levels.join(", ")})` : "";
  const why = reason ? `, rest ${reason.replaceAll("_", " ")}` : "";
  return `prompt ${count(usage.prompt_tokens)}, cached ${count(cached)}${where}${why}`;
}
