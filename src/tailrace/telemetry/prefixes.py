"""What the prefix cache gives to requests, from where, and why it gives no more."""

from tailrace.records import BeginningRecord, RequestRecord
from tailrace.telemetry.catalogs import kv as catalog
from tailrace.telemetry.series import LabelledNumber, Number, Series
from tailrace.types import Level, MissReason, PrefixReport

__all__ = ["PrefixMetrics"]


class PrefixMetrics:
    """Written by the engine's thread."""

    def __init__(self) -> None:
        self._prompt_tokens = Number(catalog.PROMPT_TOKENS)
        self._cached_tokens = Number(catalog.CACHED_TOKENS)
        self._found_tokens = LabelledNumber(catalog.FOUND_TOKENS, [(level.value,) for level in Level])
        self._misses = LabelledNumber(catalog.PREFIX_MISSES, [(reason.value,) for reason in MissReason])
        self._missed_tokens = LabelledNumber(catalog.MISSED_TOKENS, [(reason.value,) for reason in MissReason])
        self.series: tuple[Series, ...] = tuple(vars(self).values())

    def record(self, request: BeginningRecord | RequestRecord) -> None:
        """One that was admitted; each once."""
        self._prompt_tokens.value += request.num_prompt_tokens
        self._cached_tokens.value += request.num_cached_tokens
        if request.prefix is not None:
            self._record_prefix(request.prefix, request.num_prompt_tokens)

    def _record_prefix(self, prefix: PrefixReport, num_prompt_tokens: int) -> None:
        for level, num_tokens in prefix.num_tokens:
            self._found_tokens.add(num_tokens, level.value)
        if prefix.reason is not None:
            self._misses.add(1, prefix.reason.value)
            self._missed_tokens.add(num_prompt_tokens - prefix.num_cached_tokens, prefix.reason.value)
