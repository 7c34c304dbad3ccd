"""A request's place in a distributed trace, as W3C Trace Context has it.

What does not follow the standard is taken for absent, never refused: a trace is no reason to answer nobody.
"""

import re
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tailrace.frontends.trace_sampler import TraceSampler

__all__ = ["NO_TRACING", "TraceContext", "Tracing"]

Header = tuple[bytes, bytes]

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_NAME = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_MEMBER = re.compile(rf"{_NAME}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]", re.ASCII)
_MOST_MEMBERS = 32
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The span in which this server answers a request, in the trace of who asked, or in one of its own."""

    trace_id: str
    span_id: str
    is_sampled: bool
    parent_span_id: str = ""  # of who asked; empty: the trace begins here
    state: str = ""  # what others keep in the trace, as they wrote it

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.is_sampled else 0:02x}"

    def goes_on(self) -> "TraceContext":
        """A span that takes up what this one has begun."""
        return TraceContext(self.trace_id, secrets.token_hex(8), self.is_sampled, self.span_id, self.state)

    @classmethod
    def of_traceparent(cls, value: str) -> "TraceContext | None":
        """The span that a header names; None for what is no such header."""
        found = _PARENT.fullmatch(value)
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


@dataclass(frozen=True, slots=True)
class Tracing:
    """Gives requests their places. Without a sampler nobody is told of this server's spans, and it begins no trace."""

    sampler: TraceSampler | None = None

    def begin(self, headers: Collection[Header], before: str = "") -> TraceContext | None:
        """For a request with these headers, whose names are in lower case; None: nobody traces it.

        `before` is the traceparent of an answer that it takes up, whose trace it stays in unless the client names one.
        """
        parent = _parent(headers) or TraceContext.of_traceparent(before)
        if self.sampler is None:
            return parent and parent.goes_on()
        if parent is None:
            trace_id = secrets.token_hex(16)
            return TraceContext(trace_id, secrets.token_hex(8), self.sampler.samples(trace_id, None))
        is_sampled = self.sampler.samples(parent.trace_id, parent.is_sampled)
        return TraceContext(parent.trace_id, secrets.token_hex(8), is_sampled, parent.span_id, parent.state)


NO_TRACING = Tracing()


def _parent(headers: Collection[Header]) -> TraceContext | None:
    """The span of who asked. Two headers that say it say nothing; of the state there may be several."""
    parents = [value for name, value in headers if name == b"traceparent"]
    if len(parents) != 1:
        return None
    parent = TraceContext.of_traceparent(parents[0].decode("latin-1").strip(" \t"))
    if parent is None:
        return None
    state = _state([value.decode("latin-1") for name, value in headers if name == b"tracestate"])
    return TraceContext(parent.trace_id, parent.span_id, parent.is_sampled, state=state)


def _state(lines: Iterable[str]) -> str:
    """All members in their order; nothing if one of them is none, comes twice, or they are too many."""
    members = [member for line in lines for part in line.split(",") if (member := part.strip(" \t"))]
    names = {member.partition("=")[0] for member in members}
    if len(members) > _MOST_MEMBERS or len(names) < len(members):
        return ""
    return ",".join(members) if all(map(_MEMBER.fullmatch, members)) else ""
