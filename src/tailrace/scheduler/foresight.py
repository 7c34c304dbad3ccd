"""What is expected of a request before it starts: how long its answer will be, and with whom it will end."""

from tailrace.kvcache.placement import RequestGroups, Shape
from tailrace.kvcache.reservation import ExpectedLengths
from tailrace.types import Request

__all__ = ["Foresight"]


class Foresight:
    """Learns from the answers that came to their own end. `class_name`: of the service class that a request is in."""

    def __init__(self) -> None:
        self._lengths = ExpectedLengths()
        self._groups = RequestGroups()

    def num_output_tokens(self, request: Request, class_name: str) -> int:
        """No more than its answer will have, most likely; 0 while nothing is known of its class."""
        return self._lengths.expected(class_name, request.sampling.max_tokens)

    def group_of(self, request: Request, class_name: str) -> int:
        """The group of a newcomer among those that `RequestGroups` tells apart. Ask once for each."""
        num_expected = self._lengths.expected(class_name, request.sampling.max_tokens)
        return self._groups.place(Shape(request.num_prompt_tokens, num_expected, self._lengths.usual(class_name)))

    def learn(self, num_output_tokens: int, class_name: str) -> None:
        self._lengths.observe(class_name, num_output_tokens)
