import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.classes import STANDARD
from tailrace.errors import InvalidRequest
from tailrace.frontends.claim import with_headers
from tailrace.frontends.standing import Claim


def claim_of(body: Claim | None = None, **headers: str) -> Claim:
    given = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    return with_headers(body or Claim(), given, STANDARD)


def test_every_header_arrives_in_seconds() -> None:
    claim = claim_of(
        x_llm_d_slo_ttft_ms="1500",
        x_llm_d_slo_tpot_ms="12.5",
        x_llm_d_inference_objective="gold",
        x_llm_d_inference_fairness_id="acme",
        x_request_timeout_ms=" 30000 ",
    )
    assert claim == Claim(ttft_s=1.5, itl_s=0.0125, objective="gold", tenant="acme", queue_ttl_s=30.0)


def test_older_names_are_read_too_and_give_way_to_the_newer() -> None:
    old = claim_of(
        x_slo_ttft_ms="200",
        x_slo_tpot_ms="20",
        x_gateway_inference_objective="bronze",
        x_gateway_inference_fairness_id="acme",
    )
    assert old == Claim(ttft_s=0.2, itl_s=0.02, objective="bronze", tenant="acme")
    assert claim_of(x_slo_ttft_ms="200", x_llm_d_slo_ttft_ms="300").ttft_s == 0.3


def test_without_headers_a_body_says_all() -> None:
    body = Claim(service_tier="flex", priority=-1, tenant="user-7")
    assert claim_of(body) == body
    assert claim_of(body, x_llm_d_inference_fairness_id="") == body, "an empty header says nothing"
    assert claim_of(body, x_llm_d_inference_fairness_id="acme").tenant == "acme"


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "0.0",
        "-1",
        "+5",
        "nan",
        "inf",
        "1e3",
        "1_000",
        "0x10",
        "5 ms",
        "fast",
        "1.",
        ".5",
        "1" * 13,
        "86400001",
        "٣",
    ],
)
@pytest.mark.parametrize("name", ["x-llm-d-slo-ttft-ms", "x-slo-tpot-ms", "x-request-timeout-ms"])
def test_what_is_no_sensible_number_is_refused_by_its_header(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=name) as refused:
        with_headers(Claim(), {name.encode(): value.encode()}, STANDARD)
    assert refused.value.param == name


@pytest.mark.parametrize("name", ["x-llm-d-inference-objective", "x-gateway-inference-objective"])
def test_an_objective_that_is_no_class_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} must name one of the classes gold, silver, bronze") as refused:
        with_headers(Claim(), {name.encode(): b"sheddable"}, STANDARD)
    assert refused.value.param == name


@pytest.mark.parametrize("value", ["a" * 129, "two words", "é", "a\x00b"])
def test_a_tenant_that_could_break_a_log_or_be_of_any_length_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequest, match="128 visible ASCII"):
        claim_of(x_llm_d_inference_fairness_id=value)


NAMES = (
    "x-llm-d-slo-ttft-ms",
    "x-llm-d-inference-objective",
    "x-gateway-inference-fairness-id",
    "x-request-timeout-ms",
)


@given(st.dictionaries(st.sampled_from([name.encode() for name in NAMES]), st.binary(max_size=300)))
def test_any_bytes_make_a_claim_or_a_refusal_that_names_a_header(headers: dict[bytes, bytes]) -> None:
    claim, refusal = Claim(), None
    try:
        claim = with_headers(claim, headers, STANDARD)
    except InvalidRequest as error:
        refusal = error
    assert len(claim.tenant) <= 128
    assert claim.ttft_s is None or 0.0 < claim.ttft_s <= 86_400.0
    assert refusal is None or (refusal.param or "").encode() in headers
    assert len(str(refusal)) < 1000
