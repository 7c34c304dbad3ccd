// Where conversations are kept: this browser's storage, each under a key of its own, so that two tabs do not overwrite
// each other's. Bounded: the oldest ones go first.

const PREFIX = "tailrace.chat.";
const MAX_CONVERSATIONS = 50;
const MAX_CHARS = 2_000_000; // browsers give a site about 5 million

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** @returns {Conversation[]} those that are kept, latest first */
export function keptConversations() {
  return places()
    .map((place) => parsed(localStorage.getItem(place)))
    .filter((conversation) => conversation !== null)
    .sort((one, other) => other.changedMs - one.changedMs);
}

/** @param {Conversation} conversation */
export function keep(conversation) {
  const text = JSON.stringify(conversation);
  if (text.length > MAX_CHARS) return;
  makeRoom(conversation.id, text.length);
  try {
    localStorage.setItem(PREFIX + conversation.id, text);
  } catch {
    // no room, or storage is forbidden: it stays in this page
  }
}

export function forget(id) {
  localStorage.removeItem(PREFIX + id);
}

/** Calls back when another tab has changed something. */
export function watchOtherTabs(changed) {
  addEventListener("storage", ({ key }) => {
    if (key === null || key.startsWith(PREFIX)) changed();
  });
}

function makeRoom(id, numChars) {
  const others = keptConversations().filter((each) => each.id !== id);
  let room = MAX_CHARS - numChars;
  for (const [index, each] of others.entries()) {
    room -= JSON.stringify(each).length;
    if (room < 0 || index >= MAX_CONVERSATIONS - 1) forget(each.id);
  }
}

function places() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  } catch {
    return [];
  }
}

// Answers that were streaming when their page went away will not go on.
function parsed(text) {
  try {
    const conversation = JSON.parse(text);
    const messages = conversation.messages.map((each) => (each.state === "streaming" ? { ...each, state: "stopped" } : each));
    return { ...conversation, messages };
  } catch {
    return null;
  }
}
