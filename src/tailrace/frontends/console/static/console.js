// The page: a bar with its two views, and the one that is open. Which one is said behind the # of its address.

import { ChatPage } from "./chat/page.js";
import { cell, useCell } from "./cell.js";
import { KeyPrompt } from "./key_prompt.js";
import { LivePage } from "./live/page.js";
import { html, render } from "./vendor/preact.js";

const VIEWS = [
  { name: "chat", title: "Chat", page: ChatPage },
  { name: "live", title: "Live", page: LivePage },
];

const address = cell(location.hash);
addEventListener("hashchange", () => address.set(location.hash));

function opened(hash) {
  const name = hash.replace(/^#/, "").split("/")[0];
  return VIEWS.find((view) => view.name === name) ?? VIEWS[0];
}

function Console() {
  const view = opened(useCell(address));
  return html`
    <a class="skip-link" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="bar">
      <strong class="brand"><img src="/console/static/icon.svg" alt="" width="20" height="20" />Tailrace</strong>
      <nav aria-label="Views">
        ${VIEWS.map(
          ({ name, title }) =>
            html`<a href=${"#" + name} aria-current=${view.name === name ? "page" : null}>${title}</a>`,
        )}
      </nav>
      <button class="icon-button" onClick=${() => theme.toggle()} title="Light or dark" aria-label="Light or dark">◐</button>
    </header>
    <main id="main" tabindex="-1"><${view.page} /></main>
    <${KeyPrompt} />
  `;
}

// The address says which view is open, so the link does not go there.
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

render(html`<${Console} />`, document.getElementById("console"));
