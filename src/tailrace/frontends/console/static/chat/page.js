// Chat with the model: conversations on the left, settings on the right, both folded away where there is no room.

import { Composer } from "./composer.js";
import { ConversationList } from "./conversation_list.js";
import { titleOf } from "./conversation.js";
import { desk } from "./desk.js";
import { Messages } from "./messages.js";
import { learn, trouble } from "./models.js";
import { SettingsPanel } from "./settings_panel.js";
import { useCell } from "../cell.js";
import { html, useEffect, useState } from "../vendor/preact.js";

export function ChatPage() {
  const { all, open } = useCell(desk);
  const [drawer, setDrawer] = useState("");
  const other = (name) => () => setDrawer(drawer === name ? "" : name);
  useEffect(() => void learn(), []);
  return html`<div class="chat" data-drawer=${drawer}>
    <h1 class="only-read">Chat</h1>
    <aside class="left"><${ConversationList} all=${all} open=${open} close=${() => setDrawer("")} /></aside>
    <section class="talk" aria-label="Conversation">
      <div class="toolbar">
        <button type="button" class="plain drawer-list" aria-expanded=${drawer === "list"} onClick=${other("list")}>☰ Conversations</button>
        <h2>${titleOf(open)}</h2>
        <button type="button" class="plain" aria-expanded=${drawer === "settings"} onClick=${other("settings")}>Settings</button>
      </div>
      <${Trouble} />
      <${Messages} conversation=${open} />
      <div class="column"><${Composer} conversation=${open} /></div>
    </section>
    ${drawer === "settings" && html`<aside class="right"><${SettingsPanel} /></aside>`}
  </div>`;
}

function Trouble() {
  const words = useCell(trouble);
  return words && html`<p class="trouble" role="alert">${words} <button type="button" class="plain" onClick=${learn}>Try again</button></p>`;
}
