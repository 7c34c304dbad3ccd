"""How much of a model's weights a step of steady decode reads at least: each that it needs, once."""

from collections.abc import Iterator, Mapping

from tailrace.ops.program import Embed, Experts, Linear, Program

__all__ = ["read_bytes"]


def read_bytes(program: Program, bytes_of: Mapping[str, int], num_sequences: int) -> float:
    """Of weights that take `bytes_of` when packed, in a step in which so many sequences compute a token each.

    Routers are taken to choose evenly: of E experts, n tokens that take K each meet E * (1 - (1 - K / E) ** n).
    """
    parts = dict(_read_in_part(program, num_sequences))
    return sum(bytes_of[name] * parts.get(name, 1.0) for name in program.weights)


def _read_in_part(program: Program, num_sequences: int) -> Iterator[tuple[str, float]]:
    """The weights of which a step reads some rows only, and what part of them."""
    whole = {weight.name for op in program.ops if isinstance(op, Linear) for weight in op.weights}
    for op in program.ops:
        match op:
            case Embed(table=table) if table.name not in whole:  # it may be the head, too
                yield table.name, min(1.0, num_sequences / table.shape[0])
            case Experts(routing=routing, gate=gate, up=up, down=down):
                met = 1 - (1 - routing.top_k / routing.num_experts) ** num_sequences
                yield from ((weight.name, met) for weight in (gate, up, down))
            case _:
                pass
