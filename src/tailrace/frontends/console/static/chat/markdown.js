// Markdown as safe HTML, in blocks, so that a growing answer is drawn again only where it grows.
// A model's HTML is shown as text, its images as links: a page of ours fetches nothing because a model said so.

import { Marked } from "../vendor/marked.js";

const marked = new Marked({ gfm: true, breaks: false });

marked.use({
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    code: ({ text, lang }) =>
      `<div class="code"><p><span>${escaped(lang || "code")}</span><button type="button" class="plain">Copy</button></p>` +
      `<pre tabindex="0"><code>${escaped(text)}\n</code></pre></div>`,
  },
});

const CLEAN = { FORBID_ATTR: ["style", "id", "name"], FORBID_TAGS: ["style", "form", "img", "svg", "math"] };

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

function escaped(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => names[character]);
}

/** @param {string} markdown @returns {string} */
export function toHtml(markdown) {
  return DOMPurify.sanitize(marked.parse(markdown), CLEAN);
}

const DEFINITION = /^ {0,3}\[[^\]]+\]:/m;

/**
 * The blocks of a text, given those of its beginning. All but the last of them will not change while the text grows.
 * @param {string} text
 * @param {string[]} before
 * @returns {string[]}
 */
export function grownBlocks(text, before) {
  const settled = before.slice(0, -1);
  const start = settled.reduce((length, block) => length + block.length, 0);
  return [...settled, ...blocks(text.slice(start))];
}

/** The blocks of a text that is whole. Where one refers to another, they are one. */
export function wholeBlocks(text) {
  return DEFINITION.test(text) ? [text] : blocks(text);
}

// What is between blocks belongs to the one before it: a list may go on behind an empty line.
function blocks(text) {
  const found = [];
  for (const { type, raw } of marked.lexer(text)) {
    if (type === "space" && found.length) found[found.length - 1] += raw;
    else found.push(raw);
  }
  return found;
}
