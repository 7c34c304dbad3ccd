"""What `--quantize` says, and that two spellings of one thing are one thing."""

import itertools

import pytest

from tailrace.errors import SetupError
from tailrace.models.config import ModelConfig
from tailrace.weights.expected import expected_shapes
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.names import tensor_class
from tailrace.weights.precision import AS_STORED, CLASSES, Precision, Width, precision_class
from tests.unit.weights.deepseek_files import DEEPSEEK
from tests.unit.weights.model_files import TINY

NARROWED = ("attention", "dense", "experts", "shared", "index", "head", "embed")


def widths(words: str) -> dict[str, Width | None]:
    return {name: Precision.parse(words).width(name) for name in CLASSES}


def test_one_width_is_for_all_and_int4_keeps_the_vocabulary_wider() -> None:
    kept = {"routers": "float", "norms": "float"}
    assert widths("int8") == dict.fromkeys(NARROWED, "int8") | kept
    assert widths("float") == dict.fromkeys(CLASSES, "float")
    assert widths("int4") == dict.fromkeys(NARROWED, "int4") | {"head": "int8", "embed": "int8"} | kept


def test_a_class_by_name_has_its_own_width_and_the_others_the_usual_ones() -> None:
    assert widths("int4,head=float,embed=int4,attention=int8") == widths("int4") | {
        "head": "float",
        "embed": "int4",
        "attention": "int8",
    }
    assert widths("experts=int4") == dict.fromkeys(NARROWED) | {"experts": "int4", "routers": "float", "norms": "float"}


def test_spaces_and_order_do_not_matter() -> None:
    assert Precision.parse(" int4 , head = float,dense=int8") == Precision.parse("int4,dense=int8,head=float")


@pytest.mark.parametrize(
    ("spelling", "shortest"),
    [
        ("int8", "int8"),
        ("int4", "int4"),
        ("float", "float"),
        ("int4,head=int8,embed=int8", "int4"),
        ("int4,norms=float,routers=float", "int4"),
        (",".join(f"{name}=int8" for name in NARROWED), "int8"),
        ("int8,attention=int4,dense=int4,experts=int4,shared=int4,index=int4", "int4"),
        ("experts=int4", "experts=int4"),
        ("int4,dense=int8,attention=float", "int4,attention=float,dense=int8"),
    ],
)
def test_equal_spellings_are_equal_and_have_one_shortest(spelling: str, shortest: str) -> None:
    precision = Precision.parse(spelling)
    assert precision.weight_words() == shortest
    assert precision == Precision.parse(shortest)
    assert hash(precision) == hash(Precision.parse(shortest))


def test_every_combination_is_read_back_from_its_shortest_spelling_and_shares_it_with_no_other() -> None:
    choices = (None, "float", "int8", "int4")
    spellings: dict[str, Precision] = {}
    for base, attention, head, embed in itertools.product(choices, repeat=4):
        named = {"attention": attention, "head": head, "embed": embed}
        words = [*filter(None, [base]), *(f"{name}={width}" for name, width in named.items() if width)]
        precision = Precision.parse(",".join(words)) if words else AS_STORED
        if precision.weight_words():
            assert Precision.parse(precision.weight_words()) == precision
        assert spellings.setdefault(precision.weight_words(), precision) == precision
    assert spellings[""] == AS_STORED


def test_as_stored_and_what_was_always_taken_keep_their_words() -> None:
    """Caches that outlive a server are named by them."""
    assert [Precision.of(given).weight_words() for given in (None, "int8", "int4")] == ["", "int8", "int4"]


def test_a_class_that_is_not_there_makes_no_difference() -> None:
    present = ("attention", "dense", "embed", "norms")
    assert Precision.parse("int8,attention=int4,dense=int4").weight_words(present) == "int4"
    assert Precision.parse("attention=int8,dense=int8,embed=int8").weight_words(present) == "int8"
    assert Precision.parse("attention=int8").weight_words(present) == "attention=int8"


def test_the_width_of_keys_and_values_is_no_part_of_the_weights() -> None:
    precision = Precision.parse("int4,kv=int8")
    assert (precision.kv, precision.weight_words(), str(precision)) == ("int8", "int4", "int4,kv=int8")
    assert Precision.parse("kv=fp8_e4m3").weight_words() == ""
    assert precision != Precision.parse("int4")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("int3", "'int3' is no width"),
        ("", "'' is no width"),
        ("int4,int8", "'int8' is no CLASS=WIDTH"),
        ("int4,,head=int8", "'' is no CLASS=WIDTH"),
        ("mlp=int4", "'mlp=int4' is no CLASS=WIDTH"),
        ("head=", "'' is no width"),
        ("head=bf16", "'bf16' is no width"),
        ("kv=int4", "'int4' is no width"),
        ("head=int8,head=int4", "head is there twice"),
        ("routers=int8", "routers are never narrowed"),
        ("norms=int4", "norms are never narrowed"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_those_that_do(words: str, reason: str) -> None:
    with pytest.raises(SetupError) as refused:
        Precision.parse(words)
    said = str(refused.value)
    assert reason in said
    assert "\n" not in said
    for word in ("float, int8, int4", "attention, dense, experts, shared", "bf16, int8, fp8_e4m3, f32"):
        assert word in said


def test_endless_words_are_not_said_back() -> None:
    with pytest.raises(SetupError) as refused:
        Precision.parse("int4," * 100_000)
    assert len(str(refused.value)) < 600


def test_a_class_that_the_model_lacks_is_refused_with_those_it_has() -> None:
    present = ("attention", "dense", "embed", "norms")
    with pytest.raises(SetupError, match=r"^m: quantize names experts, .*no experts; it has attention, dense, embed"):
        Precision.parse("int8,experts=int4").check_named(present, "m")
    with pytest.raises(SetupError, match=r"no head of its own: it is the embedding \(embed\)"):
        Precision.parse("int4,head=int8").check_named(present, "m")
    Precision.parse("int4,embed=float,norms=float,kv=int8").check_named(present, "m")


@pytest.mark.parametrize("kv", [None, "int8"])
def test_keys_and_values_may_be_told_of_here_or_there_or_alike_in_both(kv: str | None) -> None:
    words = "int4" if kv is None else f"int4,kv={kv}"
    assert Precision.parse(words).settle_kv("int8") == "int8"
    assert Precision.parse(words).settle_kv(None) == kv


def test_two_widths_of_keys_and_values_are_refused() -> None:
    with pytest.raises(SetupError, match=r"kv=int8 .* bf16 differ"):
        Precision.parse("kv=int8").settle_kv("bf16")


@pytest.mark.parametrize("config", [TINY, *DEEPSEEK.values()])
def test_every_tensor_has_a_class_and_only_small_ones_are_never_narrowed(config: ModelConfig) -> None:
    shapes = expected_shapes(config) | (mtp_shapes(config) if config.num_mtp_layers else {})
    kept = set()
    for name in shapes:
        assert precision_class(name) in CLASSES
        if precision_class(name) in ("routers", "norms"):
            kept.add(tensor_class(name))
    assert all("norm" in role or role in ("router", "router.bias", "index.weights") for role in kept)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("embed", "embed"),
        ("head", "head"),
        ("norm", "norms"),
        ("layers.0.q", "attention"),
        ("layers.0.q.bias", "attention"),
        ("layers.0.q_norm", "norms"),
        ("layers.0.kv_a", "attention"),
        ("layers.0.v_b", "attention"),
        ("layers.3.gate", "dense"),
        ("layers.3.experts.gate", "experts"),
        ("layers.3.shared.down", "shared"),
        ("layers.3.router", "routers"),
        ("layers.3.index.k", "index"),
        ("layers.3.index.k_norm.bias", "norms"),
        ("layers.3.index.weights", "routers"),
        ("mtp.0.eh_proj", "dense"),
        ("mtp.0.o", "attention"),
        ("mtp.0.enorm", "norms"),
    ],
)
def test_a_class_is_a_role_in_the_model(name: str, expected: str) -> None:
    assert precision_class(name) == expected
