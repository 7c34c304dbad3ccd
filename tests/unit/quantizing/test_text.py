from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import SetupError
from tailrace.quantizing.text import TextReader
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import DATA, Prose


@pytest.fixture(scope="module")
def tiny() -> Checkpoint:
    return open_checkpoint("tiny-deepseek")


def test_the_held_out_text_is_the_one_whose_perplexity_is_known() -> None:
    found = TextReader.of(open_checkpoint("default")).held_out()

    assert found.tolist() == [Prose.read().token_ids]


def test_sequences_begin_as_prompts_do_and_are_as_long_as_the_model_takes(tiny: Checkpoint) -> None:
    short = replace(tiny, config=replace(tiny.config, max_model_tokens=100))
    found = TextReader.of(short).held_out(1000)

    assert found.shape == (10, 100)
    assert (found[:, 0] == tiny.bos_id).all()


def test_calibration_takes_a_bounded_part_and_none_of_what_is_held_out(tiny: Checkpoint, tmp_path: Path) -> None:
    reader, held_out = TextReader.of(tiny), (DATA / "prose.txt").read_text()
    plain = reader.calibration(None)
    mixed = tmp_path / "mixed.txt"
    own = Path(__file__).parents[3] / "src" / "tailrace" / "quantizing" / "calibration.txt"
    mixed.write_text(held_out.replace("\n\n", "  \n\n ").strip() + "\n\n" + own.read_text())

    assert plain.shape == (8, 512)
    assert np.array_equal(reader.calibration(mixed), plain)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ((DATA / "prose.txt").read_bytes(), "0 tokens are too few"),
        (b"hello\n", "too few"),
        (b"\xff\xfe" * 500, "no text in UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_text_that_does_not_do_is_named(
    tiny: Checkpoint, tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "text.txt"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SetupError, match=message) as raised:
        TextReader.of(tiny).calibration(file)
    assert str(file) in str(raised.value)
