"""Settings of DeepSeek models that make no sense: an error of ours or a model, never a crash, and never much memory."""

import contextlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import ModelError
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tests.unit.weights.deepseek_files import DEEPSEEK, deepseek_settings, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import GgmlType

CONFIG = DEEPSEEK["V3.2"]
SETTINGS = deepseek_settings(CONFIG)
ROPE = SETTINGS["rope_scaling"]
MUCH_BYTES = 64 << 20
WRONG = st.one_of(
    st.sampled_from(
        [None, True, "", "yarn", [], {}, [1], {"a": 1}, 0, -1, 1, 3, 7, 1 << 14, 1 << 16, 1 << 31, 1 << 62]
    ),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.sampled_from([1e-300, 1e300, 0.5, -0.5]),
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "tiny"
    write_deepseek(path, CONFIG)
    return path


def open_or_refuse(directory: Path, changed: dict[str, Any]) -> None:
    """Raises what is no error of ours."""
    (directory / "config.json").write_text(json.dumps(changed), encoding="utf-8")
    with contextlib.suppress(ModelError):
        checkpoint = open_directory(directory)
        assert all(checkpoint.tensors[name].shape for name in checkpoint.tensors)


@given(wrong=st.dictionaries(st.sampled_from(sorted(SETTINGS)), WRONG, min_size=1, max_size=3))
@settings(max_examples=150)
def test_wrong_settings_end_in_an_error_of_ours_or_in_a_model(directory: Path, wrong: dict[str, Any]) -> None:
    open_or_refuse(directory, SETTINGS | wrong)


@given(wrong=st.dictionaries(st.sampled_from(sorted(ROPE)), WRONG, min_size=1, max_size=3), theta=WRONG)
@settings(max_examples=100)
def test_wrong_rotary_settings_end_in_an_error_of_ours_or_in_a_model(
    directory: Path, wrong: dict[str, Any], theta: object
) -> None:
    open_or_refuse(directory, SETTINGS | {"rope_scaling": ROPE | wrong, "rope_theta": theta})


@pytest.mark.parametrize("key", [key for key, value in SETTINGS.items() if isinstance(value, int)])
@pytest.mark.parametrize("size", [1 << 12, 1 << 14, 1 << 16, 1 << 31])
def test_a_size_out_of_all_reason_takes_no_memory(directory: Path, key: str, size: int) -> None:
    tracemalloc.start()
    open_or_refuse(directory, SETTINGS | {key: size})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < MUCH_BYTES


BLOCKS = {
    "experts.up": GgmlType.Q4_0,
    "experts.down": GgmlType.Q5_1,
    "experts.gate": GgmlType.MXFP4,
    "kv_a": GgmlType.Q8_0,
    "k_b": GgmlType.BF16,
    "up": GgmlType.Q4_1,
    "embed": GgmlType.Q5_0,
    "head": GgmlType.F16,
}


@pytest.fixture(scope="module", params=[False, True], ids=["new", "old"])
def gguf_file(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "model.gguf"
    write_deepseek_gguf(path, DEEPSEEK["V3 with MTP"], is_old=request.param, kinds=BLOCKS)
    return path


def look_at_all(damaged: Path) -> None:
    """Raises what is no error of ours; what is there is finite."""
    with contextlib.suppress(ModelError):
        tensors = open_gguf(damaged, mtp=True).tensors
        for name in tensors:
            with contextlib.suppress(ModelError):
                assert np.isfinite(tensors[name].dequantize()).all(), name


@given(data=st.data())
@settings(max_examples=100)
def test_damage_ends_in_an_error_of_ours_or_in_a_model(gguf_file: Path, data: st.DataObject) -> None:
    content = bytearray(gguf_file.read_bytes())
    begin, end = content.index(b"deepseek2."), content.rindex(b".weight") + 40  # all that this architecture says
    places = st.lists(st.tuples(st.integers(begin, end), st.integers(0, 255)), min_size=1, max_size=4)
    for place, value in data.draw(places):
        content[place] = value
    damaged = gguf_file.with_name("damaged.gguf")
    damaged.write_bytes(content)
    look_at_all(damaged)


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40)
def test_flipped_bits_anywhere_end_in_an_error_of_ours_or_in_finite_values(gguf_file: Path, seed: int) -> None:
    """One bit in two thousand of all that lies behind the header: every block type gets some."""
    content = np.frombuffer(gguf_file.read_bytes(), np.uint8).copy()
    begin = bytes(content).rindex(b".weight") + 40
    chance = np.random.default_rng(seed)
    places = chance.integers(begin, len(content), (len(content) - begin) // 250)
    content[places] ^= (1 << chance.integers(0, 8, len(places))).astype(np.uint8)
    damaged = gguf_file.with_name("damaged.gguf")
    damaged.write_bytes(content.tobytes())
    look_at_all(damaged)
