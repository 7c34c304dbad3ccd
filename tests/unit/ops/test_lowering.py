"""What is fused, and in which form activations are kept."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from tailrace.models.registry import build_program
from tailrace.ops.cpu.lowering import lower
from tailrace.ops.cpu.stages import (
    AnglesStage,
    AttentionStage,
    Buffer,
    GatedStage,
    GemmStage,
    IndexKeyStage,
    IndexScoreStage,
    KernelFormat,
    LatentAttentionStage,
    NormStage,
    QuantizeStage,
    SelectStage,
    Stage,
    SwiGluStage,
    buffers_of,
)
from tailrace.ops.program import Program
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS

CONFIG = CONFIGS["plain"]


def lowered(program: Program, weights: KernelFormat) -> tuple[Stage, ...]:
    return stages_of(program, dict.fromkeys(program.weights, weights))


def stages_of(program: Program, formats: Mapping[str, KernelFormat]) -> tuple[Stage, ...]:
    return tuple(stage for stage, _ in lower(program, formats))


def kinds(stages: tuple[Stage, ...]) -> Counter[type[Stage]]:
    return Counter(type(stage) for stage in stages)


def test_quantised_linears_are_fed_by_what_computes_their_input() -> None:
    stages = lowered(build_program(CONFIG), "q4")

    assert QuantizeStage not in kinds(stages)
    for stage in stages:
        match stage:
            case NormStage(out=out, codes=codes) | SwiGluStage(out=out, codes=codes):
                assert out is None
                assert codes is not None
            case AttentionStage(codes=codes):
                assert codes is not None
            case GemmStage(x=x, codes=codes):
                assert x is None
                assert codes is not None
            case _:
                pass


def test_gate_and_up_are_computed_together() -> None:
    stages = lowered(build_program(CONFIG), "q4")

    assert kinds(stages)[GatedStage] == CONFIG.num_layers
    assert SwiGluStage not in kinds(stages)


def test_gate_and_up_of_different_formats_are_computed_apart() -> None:
    program = build_program(CONFIG)
    formats: dict[str, KernelFormat] = dict.fromkeys(program.weights, "q4")
    stages = stages_of(program, formats | {"layers.0.up": "q8", "layers.1.gate": "q4 wide"})

    assert GatedStage not in kinds(stages)
    assert kinds(stages)[SwiGluStage] == 2


def test_float_linears_get_floats_only() -> None:
    stages = lowered(build_program(CONFIG), "f32")

    assert all(buffer.form == "float" for stage in stages for buffer in buffers_of(stage))


def test_a_linear_of_both_kinds_gets_both_forms() -> None:
    program = build_program(CONFIG)
    formats: dict[str, KernelFormat] = dict.fromkeys(program.weights, "q4")
    stages = stages_of(program, formats | {"layers.0.k": "f32"})
    first = next(stage for stage in stages if isinstance(stage, GemmStage))

    assert first.x is not None
    assert first.codes is not None


def test_heads_that_end_within_a_group_are_quantised_afterwards() -> None:
    program = build_program(replace(CONFIG, num_heads=4, num_kv_heads=4, head_dim=24))
    stages = lowered(program, "q4")

    assert kinds(stages)[QuantizeStage] == CONFIG.num_layers
    assert all(stage.codes is None for stage in stages if isinstance(stage, AttentionStage))


def test_angles_are_computed_once_for_all_layers() -> None:
    assert kinds(lowered(build_program(CONFIG), "q4"))[AnglesStage] == 1


def test_attention_and_its_index_turn_by_the_same_angles() -> None:
    """The one turns neighbours, the other halves."""
    stages = kinds(lowered(build_program(DEEPSEEK_CONFIGS["sparse"]), "f32"))

    assert stages[AnglesStage] == 1
    assert stages[IndexKeyStage] == stages[IndexScoreStage] == stages[SelectStage] == stages[LatentAttentionStage] == 3


def test_every_buffer_is_written_before_it_is_read() -> None:
    seen = set[Buffer]()
    for stage in lowered(build_program(CONFIG), "q8"):
        buffers = buffers_of(stage)
        written = {buffer for name in ("out", "codes") if (buffer := getattr(stage, name, None)) in buffers}
        if isinstance(stage, GemmStage):
            written = {stage.out}
        assert set(buffers) - written <= seen
        seen |= written
