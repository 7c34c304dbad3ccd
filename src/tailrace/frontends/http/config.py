"""What an HTTP front end may be told: limits and names."""

from dataclasses import dataclass, field

from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.cors import Cors
from tailrace.frontends.rate_gate import RateGate
from tailrace.frontends.rate_table import RateTable
from tailrace.frontends.trace_context import NO_TRACING, Tracing

__all__ = ["HttpConfig", "Patience"]


@dataclass(frozen=True, slots=True)
class Patience:
    """`keep_alive_s` is the silence after which a comment is sent, 0 for never; `stall_s` how long a write may take.

    The silence is what the HTML standard advises for event streams. It is longer than the best class may wait in the
    queue, so that who is refused there still gets a status: behind a comment a refusal can only be an event.
    """

    keep_alive_s: float = 15.0
    stall_s: float = 30.0


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Bounds of one request and what responses call this build."""

    version: str = "0"
    admin_key: str | None = field(default=None, repr=False)  # of those who may look into the cache; None: nobody
    api_keys: ApiKeys = field(default_factory=lambda: ApiKeys({}), repr=False)  # of those who may have answers
    gate: RateGate = field(default_factory=lambda: RateGate(RateTable.alone()), repr=False)  # limits of these keys
    cors: Cors = field(default_factory=Cors)  # which web pages may call
    tracing: Tracing = NO_TRACING
    max_query_bytes: int = 16 * 1024
    max_body_bytes: int = 16 * 1024 * 1024
    max_merged_choices: int = 128  # of several prompts in one request; how many one prompt may have, the service says
    patience: Patience = Patience()  # with the silence of an answer, and with who does not read it
    default_completion_tokens: int = 16  # /completions without max_tokens; chat takes what the context leaves

    @property
    def fingerprint(self) -> str:
        return f"tailrace-{self.version}"
