"""In which class a request is served: from what it says of itself, and what its client may ask for. No wire format."""

from dataclasses import dataclass

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.errors import InvalidRequest
from tailrace.service.api import Standing

__all__ = ["ANYBODY", "SAYS_NOTHING", "Claim", "Client", "ClientLimits", "settle", "tier_word"]

SAYS_NOTHING = "auto"  # the service tier of clients that have no wish
_BEST, _DEFAULT, _LEAST = ("priority", "fast"), ("default", "scale"), ("flex",)
_TIERS = (SAYS_NOTHING, *_BEST, *_DEFAULT, *_LEAST)


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """How much a client may ask for; None: as much as it likes."""

    max_requests: int | None = None  # here at once
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None  # of prompts and answers together

    @property
    def is_any(self) -> bool:
        return self != _NO_LIMITS


_NO_LIMITS = ClientLimits()


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends a request, and what its operator has settled for it.

    `class_name` is the class of requests that ask for none, empty: the default one; `best_name` the best that it gets,
    empty: whatever it asks for.
    """

    name: str = ""
    class_name: str = ""
    best_name: str = ""
    limits: ClientLimits = _NO_LIMITS


ANYBODY = Client()
"""Of a server that asks nobody who they are."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request says of itself. None, and an empty tenant: nothing."""

    ttft_s: float | None = None  # targets of its own
    itl_s: float | None = None
    objective: str | None = None  # the name of a class
    service_tier: str | None = None  # a word of OpenAI's, or the name of a class
    priority: int | None = None  # vLLM's: the lower, the earlier
    tenant: str = ""
    queue_ttl_s: float | None = None


def settle(claim: Claim, client: Client, classes: ServiceClasses) -> Standing:
    """Nobody gets more than the class promises: own targets and time limits count where they ask for less.

    Raises InvalidRequest for a tier that is not known.
    """
    served = _allowed(_wanted(claim, client, classes), client, classes)
    return Standing(
        class_name=served.name,
        tenant=_tenant(claim, client),
        ttft_s=_beyond(claim.ttft_s, served.ttft_s),
        itl_s=_beyond(claim.itl_s, served.itl_s),
        queue_ttl_s=_within(claim.queue_ttl_s, served.queue_ttl_s),
    )


def tier_word(claim: Claim, standing: Standing, classes: ServiceClasses) -> str | None:
    """What the answer's `service_tier` says: OpenAI's word to who used one, the class to who named one, else nothing.

    A class for which OpenAI has no word is named.
    """
    if claim.service_tier is None:
        return None
    if claim.service_tier in classes:
        return standing.class_name
    words = {classes.least.name: _LEAST[0], classes.best.name: _BEST[0], classes.default.name: _DEFAULT[0]}
    return words.get(standing.class_name, standing.class_name)


def _wanted(claim: Claim, client: Client, classes: ServiceClasses) -> ServiceClass:
    """The first that says something, most exact first; what does not is passed over."""
    by_request = _by_objective(claim, classes) or _by_targets(claim, classes)
    by_field = _by_tier(claim.service_tier, classes) or _by_priority(claim.priority, classes)
    return by_request or by_field or classes.named(client.class_name)


def _by_objective(claim: Claim, classes: ServiceClasses) -> ServiceClass | None:
    return None if claim.objective is None else classes.named(claim.objective)


def _by_targets(claim: Claim, classes: ServiceClasses) -> ServiceClass | None:
    """The lowest class that promises as much; the best one when none does."""
    if claim.ttft_s is None and claim.itl_s is None:
        return None
    for each in reversed(classes.classes):
        is_soon = claim.ttft_s is None or each.ttft_s <= claim.ttft_s
        is_even = claim.itl_s is None or each.itl_s <= claim.itl_s
        if is_soon and is_even:
            return each
    return classes.best


def _by_tier(tier: str | None, classes: ServiceClasses) -> ServiceClass | None:
    if tier is not None and tier in classes:
        return classes.named(tier)
    if tier is None or tier == SAYS_NOTHING:
        return None
    if tier in _DEFAULT:
        return classes.default
    if tier not in _TIERS:
        known = ", ".join((*_TIERS, *(each.name for each in classes)))
        raise InvalidRequest(f"there is no service tier {tier[:64]!r}, but {known}", param="service_tier")
    return classes.best if tier in _BEST else classes.least


def _by_priority(priority: int | None, classes: ServiceClasses) -> ServiceClass | None:
    """0 says nothing: clients of vLLM send it unasked."""
    if not priority:
        return None
    return classes.best if priority < 0 else classes.least


def _allowed(wanted: ServiceClass, client: Client, classes: ServiceClasses) -> ServiceClass:
    if not client.best_name:
        return wanted
    best = classes.named(client.best_name)
    return max(wanted, best, key=classes.classes.index)


def _tenant(claim: Claim, client: Client) -> str:
    """A client may tell its own users apart, and cannot pass for another client: names of clients have no slash."""
    if client.name and claim.tenant:
        return f"{client.name}/{claim.tenant}"
    return client.name or claim.tenant


def _beyond(own_s: float | None, target_s: float) -> float | None:
    return None if own_s is None or own_s <= target_s else own_s


def _within(own_s: float | None, ttl_s: float) -> float | None:
    return None if own_s is None or own_s >= ttl_s else own_s
