"""The CPU back end's own promises: what it refuses, what it counts, and the same bits on any number of threads."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import EngineError, SetupError
from tailrace.models.registry import build_program
from tailrace.ops.api import KvFormat, Limits, StepInputs
from tailrace.ops.cpu.backend import ISA_VARIABLE, CpuBackend, CpuExecutable, measure_ceilings, supported_isas
from tailrace.ops.packed import PackedTensor, quantize_int4
from tests.support.steps import Part, limits, sampling, step, teacher_forced
from tests.support.tiny import CONFIGS, random_ids, random_weights

CONFIG = CONFIGS["normed, three to a head"]
LIMITS = limits(max_tokens=96, max_model_tokens=96, block_tokens=16)


def load(of: Limits = LIMITS, backend: CpuBackend | None = None) -> CpuExecutable:
    return (backend or CpuBackend()).load(build_program(CONFIG), random_weights(CONFIG, quantize_int4), of)


def valid_step() -> StepInputs:
    return step(LIMITS, Part(0, 0, [1, 2, 3]), Part(1, 0, [4]))


@pytest.mark.parametrize("isa", supported_isas())
def test_threads_do_not_change_a_bit(isa: str) -> None:
    ids = random_ids(CONFIG, 90)
    results = []
    for num_threads in (1, 2, 5):
        of = replace(LIMITS, num_threads=num_threads)
        results.append(teacher_forced(load(of, CpuBackend(isa)), of, ids, chunk_tokens=41))

    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("block_tokens", [16, 32, 96])
def test_the_size_of_blocks_does_not_change_a_bit(block_tokens: int) -> None:
    ids = random_ids(CONFIG, 90)
    of = limits(max_tokens=96, max_model_tokens=96, block_tokens=block_tokens)
    expected = teacher_forced(load(), LIMITS, ids, chunk_tokens=96)

    assert np.array_equal(teacher_forced(load(of), of, ids, chunk_tokens=96), expected)


def test_run_and_logits_compute_the_same() -> None:
    executable = load()
    best = executable.logits(valid_step()).argmax(axis=1)

    assert executable.run(valid_step(), sampling(4, temperature=0.0)).token_ids.tolist() == best.tolist()


def test_a_step_without_samples_fills_the_cache() -> None:
    executable, ids = load(), random_ids(CONFIG, 20)
    executable.run(step(LIMITS, Part(0, 0, ids[:19]), sample_rows=[]), sampling(0))
    after = executable.logits(step(LIMITS, Part(0, 19, ids[19:]))).copy()

    assert np.array_equal(after, teacher_forced(executable, LIMITS, ids, chunk_tokens=20, slot=1)[19:])


def test_weights_are_counted() -> None:
    weights = random_weights(CONFIG, quantize_int4).values()

    assert load().weight_bytes >= sum(weight.values.nbytes for weight in weights)


@pytest.mark.parametrize(("kv_format", "bytes_per_head"), [("bf16", 64), ("f32", 128), ("int8", 36), ("fp8_e4m3", 36)])
def test_blocks_are_counted_before_and_after_loading(kv_format: KvFormat, bytes_per_head: int) -> None:
    backend = CpuBackend(kv_format=kv_format)
    heads = 2 * CONFIG.num_kv_heads * CONFIG.num_layers  # of 24 dimensions, kept as 32

    num_bytes = backend.kv_bytes_per_block(build_program(CONFIG), LIMITS.block_tokens)
    assert num_bytes == load(backend=backend).kv_bytes_per_block == heads * bytes_per_head * LIMITS.block_tokens


def test_weights_keep_their_size_in_memory() -> None:
    """A scale that float16 holds exactly is kept in two bytes, whatever type it came in."""
    config = replace(CONFIG, vocab_size=4096, hidden_size=512, head_dim=32, intermediate_size=512)
    weights = random_weights(config, quantize_int4)
    executable = CpuBackend().load(build_program(config), weights, LIMITS)
    codes = sum(weight.values.nbytes for weight in weights.values())

    assert executable.weight_bytes < codes * 1.27  # 4 bytes of scale and offset beside 16 of codes


def test_strided_views_are_packed_as_they_are() -> None:
    """Views into a file's blocks of 20 bytes: scale, offset, codes, as GGUF has them."""
    weights = random_weights(CONFIG, quantize_int4)
    views = {name: interleaved(weight) for name, weight in weights.items()}
    ids = random_ids(CONFIG, 10)
    expected = teacher_forced(load(), LIMITS, ids, chunk_tokens=10)

    executable = CpuBackend().load(build_program(CONFIG), views, LIMITS)
    assert np.array_equal(teacher_forced(executable, LIMITS, ids, chunk_tokens=10), expected)


def interleaved(weight: PackedTensor) -> PackedTensor:
    if weight.scales is None or weight.offsets is None:
        return weight
    blocks = np.zeros(weight.scales.shape, np.dtype([("d", "<f2"), ("m", "<f2"), ("codes", "u1", 16)]))
    blocks["d"], blocks["m"], blocks["codes"] = weight.scales, weight.offsets, weight.values
    blocks.flags.writeable = False
    return PackedTensor(weight.shape, "q4", blocks["codes"], blocks["d"], blocks["m"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"token_ids": np.array([1, 2, 77, 4], np.int32)}, "no token 77"),
        ({"token_ids": np.array([1, -2, 3, 4], np.int32)}, "no token -2"),
        ({"slots": np.array([0, 4], np.int32)}, "no slot 4"),
        ({"starts": np.array([0, 96], np.int32)}, "longer than its row"),
        ({"starts": np.array([-1, 0], np.int32)}, "longer than its row"),
        ({"row_starts": np.array([0, 5, 4], np.int32)}, "descend"),
        ({"row_starts": np.array([0, 4], np.int32)}, "do not fit"),
        ({"row_starts": np.array([0, 3, 3], np.int32)}, "do not cover"),
        ({"sample_rows": np.array([4], np.int32)}, "sampled row"),
        ({"sample_rows": np.zeros(97, np.int32)}, "more samples"),
        ({"block_tables": np.full((4, 6), 24, np.int32)}, "no block 24"),
        ({"block_tables": np.zeros((4, 5), np.int32)}, "another shape"),
    ],
)
def test_a_broken_step_is_refused_by_name(change: dict[str, NDArray[np.int32]], complaint: str) -> None:
    executable = load()

    with pytest.raises(EngineError, match=complaint):
        executable.logits(replace(valid_step(), **change))


def test_a_refused_step_leaves_everything_usable() -> None:
    executable = load()
    expected = executable.logits(valid_step()).copy()
    with pytest.raises(EngineError, match="no token"):
        executable.logits(replace(valid_step(), token_ids=np.full(4, 99, np.int32)))

    assert np.array_equal(executable.logits(valid_step()), expected)


def test_two_callers_at_once_are_refused_or_served_but_never_mixed_up() -> None:
    executable, ids = load(), random_ids(CONFIG, 90)
    whole = step(LIMITS, Part(0, 0, ids), sample_rows=[89])
    expected = executable.logits(whole).argmax()

    def call(_: int) -> int | None:
        try:
            return int(executable.run(whole, sampling(1, temperature=0.0)).token_ids[0])
        except EngineError:
            return None

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(call, range(60)))

    assert set(results) <= {expected, None}
    assert expected in results


@pytest.mark.parametrize(("source", "target", "num_tokens"), [(24, 0, 1), (0, -1, 1), (0, 1, 17)])
def test_a_copy_outside_of_the_pool_is_refused(source: int, target: int, num_tokens: int) -> None:
    with pytest.raises(EngineError, match="copy_block"):
        load().copy_block(source, target, num_tokens)


def get_memory(executable: CpuExecutable, blocks: range) -> None:
    executable.commit(blocks)
    executable.populate(blocks)


@pytest.mark.parametrize("num_blocks", [64, 4100])
def test_memory_of_the_pool_comes_and_goes_with_its_chunks(num_blocks: int) -> None:
    """In pages of the usual size, and in huge ones where the system gives them: then two chunks share most pages."""
    with closing(load(replace(LIMITS, num_blocks=num_blocks))) as executable:
        chunk_bytes, huge_bytes = executable.kv_bytes_per_block * num_blocks // 4, 2 << 20
        assert executable.kv_resident_bytes == 0
        get_memory(executable, range(num_blocks // 4))
        assert chunk_bytes <= executable.kv_resident_bytes <= chunk_bytes + huge_bytes
        get_memory(executable, range(num_blocks // 2, num_blocks))
        assert executable.kv_resident_bytes >= 3 * chunk_bytes
        executable.release(range(num_blocks // 2, num_blocks))
        assert chunk_bytes <= executable.kv_resident_bytes <= chunk_bytes + huge_bytes
        executable.release(range(num_blocks // 4))
        assert executable.kv_resident_bytes == 0


@pytest.mark.parametrize("blocks", [range(-1, 2), range(LIMITS.num_blocks, LIMITS.num_blocks + 1)])
def test_memory_for_blocks_outside_of_the_pool_is_refused(blocks: range) -> None:
    executable = load()
    with pytest.raises(EngineError, match="refused to commit"):
        executable.commit(blocks)
    with pytest.raises(EngineError, match="refused to populate"):
        executable.populate(blocks)
    with pytest.raises(EngineError, match="refused to release"):
        executable.release(blocks)


def test_a_closed_executable_says_so() -> None:
    executable = load()
    executable.close()
    executable.close()

    with pytest.raises(EngineError, match="closed"):
        executable.logits(valid_step())


def test_limits_that_fit_no_kernel_are_refused() -> None:
    with pytest.raises(SetupError, match="multiple of 16, not 8"):
        load(replace(LIMITS, block_tokens=8))


def test_a_pool_beyond_memory_is_refused() -> None:
    with pytest.raises(SetupError, match="KV blocks"):
        load(replace(LIMITS, num_blocks=2**31 - 1, block_tokens=2**16))


def test_too_many_heads_for_one_kv_head_are_refused() -> None:
    config = replace(CONFIG, num_heads=65, num_kv_heads=1, head_dim=8)

    with pytest.raises(SetupError, match="65 query heads"):
        CpuBackend().load(build_program(config), random_weights(config), LIMITS)


def test_heads_of_more_dimensions_than_kernels_have_room_for_are_refused() -> None:
    config = replace(CONFIG, num_heads=2, num_kv_heads=1, head_dim=1040)

    with pytest.raises(SetupError, match="heads of 1040 dimensions"):
        CpuBackend().load(build_program(config), random_weights(config), LIMITS)


def test_an_unknown_instruction_set_is_refused_with_the_choices() -> None:
    with pytest.raises(SetupError, match=r"'mmx'.*portable"):
        CpuBackend("mmx")


def test_the_environment_chooses_the_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ISA_VARIABLE, "portable")

    assert CpuBackend().isa == "portable"
    assert CpuBackend(supported_isas()[0]).isa == supported_isas()[0]


def test_the_portable_kernels_are_always_there() -> None:
    assert supported_isas()[-1] == "portable"


def test_a_profile_times_every_stage_and_computes_the_step() -> None:
    executable, ids = load(), random_ids(CONFIG, 20)
    profile = executable.profile(step(LIMITS, Part(0, 0, ids[:19])))
    after = executable.logits(step(LIMITS, Part(0, 19, ids[19:]))).copy()

    assert len(profile) > 5 * CONFIG.num_layers
    assert all(seconds >= 0 for _, seconds in profile)
    assert np.array_equal(after, teacher_forced(executable, LIMITS, ids, chunk_tokens=20, slot=1)[19:])


@pytest.mark.parametrize("isa", supported_isas())
def test_ceilings_are_measured_on_every_instruction_set(isa: str) -> None:
    ceilings = measure_ceilings(num_threads=2, num_bytes=2**20, isa=isa)

    assert ceilings.read_bytes_per_s > 0
    assert ceilings.dot_ops_per_s > 0


def test_an_idle_executable_burns_no_time() -> None:
    """The threads sleep between steps: while this one waits, the process computes next to nothing."""
    executable = load(replace(LIMITS, num_threads=4))
    executable.logits(valid_step())
    before = os.times()
    time.sleep(0.3)
    after = os.times()

    assert after.user + after.system - before.user - before.system < 0.1


MANY_THREADS = """
import resource
from dataclasses import replace
from pathlib import Path
from tailrace.errors import SetupError
from tests.unit.ops.test_cpu import LIMITS, load

pages = int(Path("/proc/self/statm").read_text().split()[0])
room = pages * resource.getpagesize() + (400 << 20)  # less than the stacks of so many threads
resource.setrlimit(resource.RLIMIT_AS, (room, room))
try:
    load(replace(LIMITS, num_threads=400))
except SetupError as error:
    print(error)
"""


def test_threads_that_the_system_does_not_give_are_said() -> None:
    ended = subprocess.run([sys.executable, "-c", MANY_THREADS], capture_output=True, text=True, check=False)

    assert "cannot start 400 threads" in ended.stdout, ended.stderr
