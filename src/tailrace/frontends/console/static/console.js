// The page: a bar with its two views, and the one that is open.

import { address, addressOf } from "./address.js";
import { ChatPage } from "./chat/page.js";
import { useCell } from "./cell.js";
import { KeyPrompt } from "./key_prompt.js";
import { LivePage } from "./live/page.js";
import { html, render } from "./vendor/preact.js";

const VIEWS = [
  { name: "chat", title: "Chat", page: ChatPage },
  { name: "live", title: "Live", page: LivePage },
];

function Console() {
  const { view, item } = useCell(address);
  const open = VIEWS.find(({ name }) => name === view) ?? VIEWS[0];
  return html`
    <a class="skip-link" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="bar">
      <strong class="brand"><img src="/console/static/icon.svg" alt="" width="20" height="20" />Tailrace</strong>
      <nav aria-label="Views">
        ${VIEWS.map(
          ({ name, title }) =>
            html`<a href=${addressOf(name)} aria-current=${open.name === name ? "page" : null}>${title}</a>`,
        )}
      </nav>
      <button class="icon-button" onClick=${() => theme.toggle()} title="Light or dark" aria-label="Light or dark">◐</button>
    </header>
    <main id="main" tabindex="-1"><${open.page} item=${item} /></main>
    <${KeyPrompt} />
  `;
}

// The address says which view is open, so the link does not go there.
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

render(html`<${Console} />`, document.getElementById("console"));
