// Markdown on the page.

import { copy } from "../clipboard.js";
import { grownBlocks, toHtml, wholeBlocks } from "./markdown.js";
import { html, useMemo, useRef } from "../vendor/preact.js";

/** @param {{text: string, isGrowing: boolean}} props */
export function Markdown({ text, isGrowing }) {
  const before = useRef([]);
  before.current = useMemo(() => (isGrowing ? grownBlocks(text, before.current) : wholeBlocks(text)), [text, isGrowing]);
  return html`<div class="markdown" onClick=${copyCode}>
    ${before.current.map((block, index) => html`<${Block} key=${index} text=${block} />`)}
  </div>`;
}

function Block({ text }) {
  const clean = useMemo(() => toHtml(text), [text]);
  return html`<div class="block" dangerouslySetInnerHTML=${{ __html: clean }} />`;
}

async function copyCode({ target }) {
  if (target.tagName !== "BUTTON") return;
  const done = await copy(target.closest(".code").querySelector("code").textContent);
  target.textContent = done ? "Copied" : "Not allowed";
  setTimeout(() => (target.textContent = "Copy"), 1500);
}
