"""Requests that the step loop has not looked at yet: classes and tenants take turns, so that no burst holds up others.

Takes no lock.
"""

from collections import OrderedDict

from tailrace.types import Request

__all__ = ["Inbox"]

_Line = tuple[str, str]  # class and tenant


class Inbox:
    """A line for each tenant of each class, first come first served; one request of each in turn."""

    def __init__(self) -> None:
        self._lines: OrderedDict[_Line, OrderedDict[str, Request]] = OrderedDict()
        self._line_of: dict[str, _Line] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._line_of

    def put(self, request: Request) -> None:
        line = self._line_of[request.request_id] = request.class_name, request.tenant
        self._lines.setdefault(line, OrderedDict())[request.request_id] = request

    def pop(self) -> Request:
        """The next in turn. There must be one."""
        line, requests = self._lines.popitem(last=False)
        request_id, request = requests.popitem(last=False)
        if requests:
            self._lines[line] = requests
        del self._line_of[request_id]
        return request

    def withdraw(self, request_id: str) -> Request | None:
        """Take out a request; None when it is not here."""
        line = self._line_of.pop(request_id, None)
        if line is None:
            return None
        request = self._lines[line].pop(request_id)
        if not self._lines[line]:
            del self._lines[line]
        return request
