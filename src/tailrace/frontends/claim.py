"""The headers in which a request says how urgent it is and whose. What is no such value is refused by name.

The names are those of the llm-d router and, before it, of the Gateway API inference extension.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from tailrace.classes import ServiceClasses
from tailrace.errors import InvalidRequest
from tailrace.frontends.standing import Claim

__all__ = ["with_headers"]

Headers = Mapping[bytes, bytes]

_TTFT = ("x-llm-d-slo-ttft-ms", "x-slo-ttft-ms")
_ITL = ("x-llm-d-slo-tpot-ms", "x-slo-tpot-ms")
_OBJECTIVE = ("x-llm-d-inference-objective", "x-gateway-inference-objective")
_TENANT = ("x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
_TIMEOUT = ("x-request-timeout-ms",)

_MAX_MS = 86_400_000  # a day
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)
_TENANT_NAME = re.compile(r"[!-~]{1,128}")


def with_headers(claim: Claim, headers: Headers, classes: ServiceClasses) -> Claim:
    """The claim of a body with what its headers say. An empty header says nothing. Raises InvalidRequest."""
    return replace(
        claim,
        ttft_s=_seconds(headers, _TTFT),
        itl_s=_seconds(headers, _ITL),
        objective=_objective(headers, classes),
        tenant=_tenant(headers) or claim.tenant,
        queue_ttl_s=_seconds(headers, _TIMEOUT),
    )


def _given(headers: Headers, names: tuple[str, ...]) -> tuple[str, str] | None:
    """The first of these headers that is there, with its value."""
    for name in names:
        if value := headers.get(name.encode(), b"").strip():
            return name, value.decode("latin-1")
    return None


def _seconds(headers: Headers, names: tuple[str, ...]) -> float | None:
    if (given := _given(headers, names)) is None:
        return None
    name, value = given
    if not _NUMBER.fullmatch(value) or not 0.0 < float(value) <= _MAX_MS:
        raise InvalidRequest(
            f"the header {name} must be a number of milliseconds, more than 0 and at most {_MAX_MS:,}, "
            f"such as 250 or 0.5, not {value[:32]!r}",
            param=name,
        )
    return float(value) / 1e3


def _objective(headers: Headers, classes: ServiceClasses) -> str | None:
    if (given := _given(headers, _OBJECTIVE)) is None:
        return None
    name, value = given
    if value not in classes:
        known = ", ".join(each.name for each in classes)
        raise InvalidRequest(f"the header {name} must name one of the classes {known}, not {value[:64]!r}", param=name)
    return value


def _tenant(headers: Headers) -> str:
    if (given := _given(headers, _TENANT)) is None:
        return ""
    name, value = given
    if not _TENANT_NAME.fullmatch(value):
        raise InvalidRequest(f"the header {name} must be 1 to 128 visible ASCII characters", param=name)
    return value
