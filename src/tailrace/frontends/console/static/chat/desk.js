// The conversations on the table: which one is open, which answers are being written, and what a reader can do to them.

import { emptyAnswer } from "./answer.js";
import { complete } from "./completion.js";
import * as talk from "./conversation.js";
import { model } from "./models.js";
import { requestBody, settings } from "./settings.js";
import { forget, keep, keptConversations, watchOtherTabs } from "./shelf.js";
import { cell } from "../cell.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** @type {import("../cell.js").Cell<{all: Conversation[], open: Conversation}>} */
export const desk = cell(laidOut(keptConversations()));

/** Of each conversation that is being answered, what aborts it. */
const running = new Map();

function laidOut(all) {
  return { all, open: all[0] ?? talk.emptyConversation(Date.now()) };
}

watchOtherTabs(() => {
  const { all, open } = desk.get();
  const kept = keptConversations().filter((each) => !running.has(each.id));
  const ours = all.filter((each) => running.has(each.id));
  desk.set({ all: [...ours, ...kept], open: kept.find((each) => each.id === open.id) ?? open });
});

// A page draws no faster than this, however fast the tokens come.
let isDue = false;
function putSoon(id, answer) {
  place(id, answer);
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    desk.set(desk.get());
  });
}

function place(id, answer) {
  const state = desk.get();
  const written = state.all.find((each) => each.id === id);
  if (!written) return; // it was deleted meanwhile
  const next = talk.withAnswer(written, answer);
  state.all = state.all.map((each) => (each.id === id ? next : each));
  if (state.open.id === id) state.open = next;
}

/** Puts a conversation first and opens it. */
function put(conversation) {
  const { all } = desk.get();
  desk.set({ all: [conversation, ...all.filter((each) => each.id !== conversation.id)], open: conversation });
  keep(conversation);
}

export function isAnswering(conversation) {
  return running.has(conversation.id);
}

export function openConversation(id) {
  const { all } = desk.get();
  desk.set({ all, open: all.find((each) => each.id === id) ?? desk.get().open });
}

export function startConversation() {
  desk.set({ all: desk.get().all, open: talk.emptyConversation(Date.now()) });
}

export function deleteConversation(id) {
  stop(id);
  forget(id);
  const all = desk.get().all.filter((each) => each.id !== id);
  desk.set(desk.get().open.id === id ? laidOut(all) : { all, open: desk.get().open });
}

/** Asks something in the open conversation. */
export function send(text) {
  return answered(desk.get().open, text);
}

/** Another answer to the last question, in place of the one that is there. */
export function regenerate() {
  const text = talk.lastQuestion(desk.get().open);
  return text === null ? undefined : edit(text);
}

/** The last question in other words; its answer is forgotten. */
export function edit(text) {
  stop(desk.get().open.id);
  return answered(talk.withoutLastTurn(desk.get().open), text);
}

export function stop(id = desk.get().open.id) {
  running.get(id)?.abort();
  running.delete(id);
}

async function answered(conversation, text) {
  const controller = new AbortController();
  const answer = emptyAnswer();
  const next = talk.asked(conversation, text, answer, Date.now());
  const chosen = settings.get();
  answer.request = requestBody(chosen, model.get(), talk.wireMessages(next, answer.id, chosen.system));
  running.set(next.id, controller);
  put(next);
  await complete(answer, controller.signal, (latest) => putSoon(next.id, latest));
  if (running.get(next.id) === controller) running.delete(next.id);
  settle(next.id);
}

function settle(id) {
  const written = desk.get().all.find((each) => each.id === id);
  if (written) keep(written);
  desk.set(desk.get());
}
