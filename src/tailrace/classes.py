"""Service classes: what requests of each are promised, and how they rank. Plain data, standard library only."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tailrace.errors import SetupError

__all__ = ["STANDARD", "ServiceClass", "ServiceClasses"]

_NO_TTL_S = 1e9
_LEAST_SHARE = 0.01  # of a class that was promised none: no request waits for ever
MAX_CLASSES = 8  # each is a label of many metrics

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")  # it is the value of headers and labels


@dataclass(frozen=True, slots=True)
class ServiceClass:
    """Targets are for 95 of 100 requests, and of each request for 95 of 100 gaps between its tokens."""

    name: str
    priority: float  # how much its waiting requests count beside others'
    ttft_s: float  # target, from arrival to the first token
    itl_s: float  # target, from one token to the next
    min_share: float  # of the work that is admitted, what it gets at least while it has requests waiting
    queue_ttl_s: float  # who has not started by then is refused
    is_refused_late: bool = True  # at once, when its first token would certainly miss the target because of others
    max_yields: int = 3  # times that a running request makes way for one of a better class that would be late

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SetupError(
                f"a class cannot be called {self.name[:64]!r}: take up to 32 letters, digits, '.', '_', '-'"
            )
        for name in ("priority", "ttft_s", "itl_s", "queue_ttl_s"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise SetupError(f"{name} of class {self.name!r} must be a positive number, not {getattr(self, name)}")
        if not 0.0 <= self.min_share < 1.0:
            raise SetupError(f"min_share of class {self.name!r} must lie in [0, 1), not {self.min_share}")
        if self.max_yields < 0:
            raise SetupError(f"max_yields of class {self.name!r} must be at least 0, not {self.max_yields}")

    @property
    def share(self) -> float:
        """Of the work that is admitted, what it gets at least while it waits, whatever was promised. Above 0."""
        return max(self.min_share, _LEAST_SHARE)


@dataclass(frozen=True, slots=True)
class ServiceClasses:
    """Some classes, best first, and the one of requests that name none."""

    classes: tuple[ServiceClass, ...]
    default_name: str

    def __post_init__(self) -> None:
        names = [each.name for each in self.classes]
        if not 1 <= len(names) <= MAX_CLASSES:
            raise SetupError(f"{len(names)} service classes: there can be 1 to {MAX_CLASSES}")
        if len(set(names)) < len(names):
            raise SetupError(f"two service classes have the same name: {', '.join(names)}")
        if self.default_name not in names:
            raise SetupError(f"the default class {self.default_name!r} is none of {', '.join(names)}")
        priorities = [each.priority for each in self.classes]
        if priorities != sorted(priorities, reverse=True):
            raise SetupError("list service classes by falling priority")
        if sum(each.min_share for each in self.classes) > 0.5:
            raise SetupError("the least shares of all classes come to more than half: nothing would be left to rank")

    def __iter__(self) -> Iterator[ServiceClass]:
        return iter(self.classes)

    def __contains__(self, name: str) -> bool:
        return any(each.name == name for each in self.classes)

    def named(self, name: str) -> ServiceClass:
        """The class of this name, the default one for an empty or unknown name."""
        return next((each for each in self.classes if each.name == name), self.default)

    @property
    def default(self) -> ServiceClass:
        return next(each for each in self.classes if each.name == self.default_name)

    @property
    def best(self) -> ServiceClass:
        """The class that ranks first."""
        return self.classes[0]

    @property
    def least(self) -> ServiceClass:
        """The class that ranks last."""
        return self.classes[-1]

    @property
    def tightest_itl_s(self) -> float:
        """The least target from one token to the next."""
        return min(each.itl_s for each in self.classes)

    @property
    def patient(self) -> "ServiceClasses":
        """The same for who comes alone and waits as long as it takes: nobody is refused."""
        return replace(
            self,
            classes=tuple(replace(each, is_refused_late=False, queue_ttl_s=_NO_TTL_S) for each in self.classes),
        )

    def scaled(self, factor: float) -> "ServiceClasses":
        """With all targets that many times as long."""
        return replace(
            self,
            classes=tuple(
                replace(each, ttft_s=each.ttft_s * factor, itl_s=each.itl_s * factor) for each in self.classes
            ),
        )


STANDARD = ServiceClasses(
    (
        ServiceClass("gold", 4.0, ttft_s=1.0, itl_s=0.05, min_share=0.0, queue_ttl_s=10.0),
        ServiceClass("silver", 2.0, ttft_s=10.0, itl_s=0.15, min_share=0.05, queue_ttl_s=60.0),
        ServiceClass("bronze", 1.0, ttft_s=60.0, itl_s=0.5, min_share=0.05, queue_ttl_s=600.0),
    ),
    default_name="silver",
)
"""For hardware that decodes 32 streams in half of gold's gap; see `scaled` for other."""
