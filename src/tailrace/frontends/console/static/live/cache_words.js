// Why a prompt's tokens had to be computed, or had not, in words.

import { count, plural } from "../format.js";

const PLACES = {
  engine: "lay in the engine's memory",
  host: "came from the host's shared memory",
  disk: "came from disk",
  redis: "came from redis",
};

const REASONS = {
  never_seen: "nobody had sent it before",
  evicted: "it had been there, but other requests needed the room",
  expired: "it had been there, but nobody used it for its time to live",
  released: "it had been there, but its memory was idle and went back to the system",
  invalidated: "it had been there, but an operator invalidated it",
  other_salt: "it is there, but for another tenant",
  other_fingerprint: "it is there, but of other weights or in another format",
  shorter_than_block: "what is left is shorter than a block",
  level_down: "the level that may have it did not answer",
  level_bypassed: "a rule keeps requests from the level that may have it",
  slower_than_recompute: "a level has it, but to compute it was faster",
};

/** @param {{num_prompt_tokens: number, num_cached_tokens: number, found: object, miss_reason: string | null}} life */
export function cacheWords({ num_prompt_tokens: prompt, num_cached_tokens: cached, found, miss_reason: reason }) {
  const places = Object.entries(found).map(([level, tokens]) => `${count(tokens)} ${PLACES[level] ?? `came from ${level}`}`);
  const given = cached ? `${count(cached)} needed no computing: ${places.join(", ")}.` : "none was cached.";
  const rest = cached ? "The rest" : "All of it";
  const why = reason ? ` ${rest} was computed: ${REASONS[reason] ?? reason.replaceAll("_", " ")}.` : "";
  return `Of ${plural(prompt, "prompt token")} ${given}${why}`;
}
