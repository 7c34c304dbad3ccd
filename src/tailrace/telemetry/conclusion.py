"""What an attribution comes to, in a few plain sentences: the first is what one would do something about first."""

from collections.abc import Iterator, Mapping

from tailrace.telemetry.attribution import Attribution, OpLine, Roof

__all__ = ["conclude"]

_MUCH_IDLE, _SOME_IDLE = 0.9, 0.2  # of the time
_AT_LIMIT, _NEAR_LIMIT = 0.75, 0.4  # of a ceiling
_STARVED = 0.75  # cores, while the step loop alone would take a whole one
_MUCH_BETWEEN = 0.15  # of the busy time
_MUCH_OF_FIRST_TOKEN = 0.3
_DEAR = 0.1  # of what is computed

_CEILINGS = {"memory": "memory ceiling", "arithmetic": "arithmetic peak"}
_FIRST_TOKEN_WORDS = {
    "accept": "reading requests",
    "tokenise": "making tokens of prompts",
    "to_engine": "the way to the engine",
    "queue": "queueing",
    "fetch": "fetching from levels below",
    "prefill": "computing prompts",
    "between": "waiting between steps of prompts",
    "from_engine": "the way back from the engine",
    "text": "making text",
    "write": "writing",
}


def conclude(attribution: Attribution) -> list[str]:
    """One sentence at least."""
    idle = attribution.engine.get("idle", 0.0) / attribution.seconds
    sentences = [] if idle < _SOME_IDLE else [f"{idle:.0%} of the time the engine had nothing to do."]
    if idle < _MUCH_IDLE:
        sentences += [*_of_cores(attribution), *_of_steps(attribution)]
    sentences += _of_first_tokens(attribution.first_token)
    return sentences or ["Nothing stands out."]


def _of_cores(attribution: Attribution) -> Iterator[str]:
    cores, busy = attribution.processes.get("engine"), attribution.busy_s / attribution.seconds
    if cores is not None and cores < _STARVED * busy:
        yield (
            f"The engine was busy for {busy:.0%} of the time and got {cores:.2f} cores: others use this machine, or it "
            "waits for weights."
        )


def _of_steps(attribution: Attribution) -> Iterator[str]:
    between = attribution.between_steps_s / attribution.busy_s if attribution.busy_s > 0.0 else 0.0
    if between >= _MUCH_BETWEEN:
        parts = {part: spent for part, spent in attribution.engine.items() if part not in {"idle", "compute"}}
        most = max(parts, key=parts.__getitem__)
        yield f"{between:.0%} of the time that it was busy it did not compute; most of that was {most}."
    if attribution.whole is not None:
        yield from _of_roof(attribution.whole, attribution.ops)


def _of_roof(whole: Roof, ops: tuple[OpLine, ...]) -> Iterator[str]:
    share, binds = whole.share, whole.binds
    if share is None or binds is None:
        return
    reached = f"{share:.0%} of the {_CEILINGS[binds]}"
    if share >= _AT_LIMIT:
        yield f"Steps compute at {reached}: the machine is the limit."
        return
    lead = f"Steps compute at {reached}" if share >= _NEAR_LIMIT else f"Steps compute at no more than {reached}"
    dear = [line for line in ops if line.share >= _DEAR]
    if not dear:
        yield f"{lead}."
        return
    lost = max(dear, key=lambda line: line.share * (1.0 - (line.roof.share or 0.0)))
    own = "which moves and multiplies nothing" if not lost.roof.share else f"at {lost.roof.share:.0%} of its own"
    yield f"{lead}; most is lost in {lost.name}, {own}."


def _of_first_tokens(first_token: Mapping[str, float]) -> Iterator[str]:
    total = sum(first_token.values())
    if total <= 0.0:
        return
    most = max(first_token, key=first_token.__getitem__)
    share = first_token[most] / total
    if share >= _MUCH_OF_FIRST_TOKEN:
        yield f"{share:.0%} of the time to the first token is {_FIRST_TOKEN_WORDS.get(most, most)}."
