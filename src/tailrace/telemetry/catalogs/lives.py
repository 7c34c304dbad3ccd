"""Metrics of where the time of answers goes between a client and the engine; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "FIRST_TOKENS",
    "FIRST_TOKEN_PART_SECONDS",
    "LIFE_CATALOG",
    "TOKEN_PATH_PIECES",
    "TOKEN_PATH_SECONDS",
    "TOKEN_PATH_TOKENS",
]

FIRST_TOKENS = Metric(
    "tailrace_first_tokens",
    Kind.COUNTER,
    "tokens",
    "First tokens of answers whose way is in tailrace_first_token_part_seconds: of several choices the first one's.",
)
FIRST_TOKEN_PART_SECONDS = Metric(
    "tailrace_first_token_part_seconds",
    Kind.COUNTER,
    "seconds",
    "Time from the heads of requests until the first pieces of their answers were with the socket, by part: accept, "
    "tokenise (grammars too), to_engine, queue (without fetch), fetch (levels below the engine), prefill, between (two "
    "steps of a prompt), from_engine, text, write. An answer that is not streamed ends here with its first text.",
    labels=("part",),
)
TOKEN_PATH_SECONDS = Metric(
    "tailrace_token_path_seconds",
    Kind.COUNTER,
    "seconds",
    "Time that pieces of answers behind the first took, those that were timed, by part: ring (from the engine to the "
    "API process), text (until they were text), write (framed and with the socket), client (as write, where that took "
    "more than a millisecond, since the client did not take more).",
    labels=("part",),
)
TOKEN_PATH_PIECES = Metric(
    "tailrace_token_path_pieces",
    Kind.COUNTER,
    "pieces",
    "Pieces in tailrace_token_path_seconds: of ring, reads, with the tokens of all streams in them; of the others, one "
    "in sixteen of each stream.",
    labels=("part",),
)
TOKEN_PATH_TOKENS = Metric(
    "tailrace_token_path_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens in the pieces of tailrace_token_path_seconds.",
    labels=("part",),
)

LIFE_CATALOG = (FIRST_TOKENS, FIRST_TOKEN_PART_SECONDS, TOKEN_PATH_SECONDS, TOKEN_PATH_PIECES, TOKEN_PATH_TOKENS)
