"""Texts in few tokens: what the end of an answer is written with."""

from collections.abc import Sequence

from tailrace.guides.tokens import TokenTable

__all__ = ["Speller"]

_MAX_TOKEN_BYTES = 24  # of the tokens that are looked for: longer ones hardly occur in the end of an answer


class Speller:
    """Between the tokens of a model and those of the bytewise vocabulary, which are bytes and special tokens."""

    def __init__(self, table: TokenTable, first_byte_id: int) -> None:
        self._table = table
        self._first_byte_id = first_byte_id
        self._id_of = _ids_of_texts(table)
        special = table.special_ids.difference(table.eos_ids)
        single = {piece[0] for piece in self._id_of if len(piece) == 1}
        # What an answer can have: a vocabulary may lack bytes.
        self.writable = (*sorted(special), *sorted(first_byte_id + byte for byte in single))

    def split(self, token_id: int) -> list[int]:
        """A token of the model in bytewise tokens."""
        if token_id in self._table.special_ids:
            return [token_id]
        return [self._first_byte_id + byte for byte in self._table.tokens[token_id]]

    def join(self, bytewise: Sequence[int]) -> list[int]:
        """The fewest tokens of the model that say the same."""
        token_ids: list[int] = []
        text = bytearray()
        for item in bytewise:
            if item >= self._first_byte_id:
                text.append(item - self._first_byte_id)
            else:
                token_ids += [*self._fewest(bytes(text)), item]
                text.clear()
        return token_ids + self._fewest(bytes(text))

    def _fewest(self, text: bytes) -> list[int]:
        """From the end to the front: the first token of the shortest spelling of each rest."""
        counts = [0] * (len(text) + 1)
        firsts = [0] * len(text)
        lengths = [0] * len(text)
        for start in range(len(text) - 1, -1, -1):
            counts[start] = len(text) + 1
            for length in range(1, min(_MAX_TOKEN_BYTES, len(text) - start) + 1):
                token_id = self._id_of.get(text[start : start + length])
                if token_id is not None and counts[start + length] + 1 < counts[start]:
                    counts[start], firsts[start], lengths[start] = counts[start + length] + 1, token_id, length
        spelled, place = list[int](), 0
        while place < len(text):
            spelled.append(firsts[place])
            place += lengths[place]
        return spelled


def _ids_of_texts(table: TokenTable) -> dict[bytes, int]:
    """Of each short text the first token that is it."""
    pieces, special = table.tokens, table.special_ids.union(table.eos_ids)
    ids = range(len(pieces) - 1, -1, -1)
    return {pieces[i]: i for i in ids if 0 < len(pieces[i]) <= _MAX_TOKEN_BYTES and i not in special}
