"""Parts by their type: taken strictly, and refused with their place."""

from collections.abc import Mapping

import pytest
from msgspec import Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.typed_parts import typed_part


class Cut(Struct, tag_field="type", tag="cut", forbid_unknown_fields=True):
    at: int
    by: list[dict[str, int]] | None = None


class Fold(Struct, tag_field="type", tag="fold", forbid_unknown_fields=True):
    pass


KINDS: Mapping[str, type[Struct]] = {"cut": Cut, "fold": Fold}


def test_a_part_is_the_struct_of_its_type() -> None:
    assert typed_part({"type": "cut", "at": 3, "by": None, "other": None}, KINDS, "p") == Cut(3)
    assert typed_part({"type": "fold"}, KINDS, "p") == Fold()
    assert typed_part({}, KINDS, "p", default="fold") == typed_part({"type": None}, KINDS, "p", "fold") == Fold()


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "tear"}, "p[0].type"),
        ({"type": 3}, "p[0].type"),
        ({"at": 3}, "p[0].type"),
        ({"type": "cut"}, "p[0].at"),
        ({"type": "cut", "at": "here"}, "p[0].at"),
        ({"type": "cut", "at": 1, "by": [{"a": "b"}]}, "p[0].by[0][...]"),
        ({"type": "fold", "twice": True}, "p[0].twice"),
    ],
)
def test_what_is_wrong_has_its_place(part: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        typed_part(part, KINDS, "p[0]")
    assert caught.value.param == param
    assert param.rpartition(".")[0] in str(caught.value)
