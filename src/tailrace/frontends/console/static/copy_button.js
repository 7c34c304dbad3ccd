// A button that copies something and says so for a moment.

import { copy } from "./clipboard.js";
import { html, useEffect, useState } from "./vendor/preact.js";

const SHOWN_MS = 1500;

/** @param {{text: () => string, children: unknown, title?: string}} props */
export function CopyButton({ text, children, title }) {
  const [said, say] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => say(""), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const onClick = async () => say((await copy(text())) ? "Copied" : "Not allowed");
  return html`<button type="button" class="plain" title=${title} onClick=${onClick}>
    <span aria-live="polite">${said || children}</span>
  </button>`;
}
