"""What an HTTP front end may be told: limits and names."""

from dataclasses import dataclass

__all__ = ["HttpConfig"]


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Bounds of one request and what responses call this build."""

    version: str = "0"
    max_body_bytes: int = 16 * 1024 * 1024
    max_merged_choices: int = 128  # of several prompts in one request; how many one prompt may have, the service says
    max_buffered_bytes: int = 64 * 1024  # of one stream, while its client reads slowly; then reading stops
    default_completion_tokens: int = 16  # /completions without max_tokens; chat takes what the context leaves

    @property
    def fingerprint(self) -> str:
        return f"tailrace-{self.version}"
