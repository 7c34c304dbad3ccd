import threading
from collections.abc import Callable

from tailrace.engine.guide_making import GuideMaking, Made
from tailrace.engine.guided import TokenGuide
from tailrace.errors import EngineError, TailraceError
from tailrace.types import Request, SamplingParams
from tests.support.guides import ScriptedGuide


def request(name: str) -> Request:
    return Request(name, (1, 2), SamplingParams(max_tokens=4))


def script(_: Request) -> TokenGuide:
    return ScriptedGuide([[1]])


class Desk:
    """Guides are made on the thread; `next_made` waits for it."""

    def __init__(self, make: Callable[[Request], TokenGuide] = script) -> None:
        self._woken = threading.Semaphore(0)
        self.making = GuideMaking(make, self._woken.release)

    def next_made(self) -> list[Made]:
        self._woken.acquire()
        return self.making.drain()


def test_requests_come_out_with_their_guides() -> None:
    desk = Desk()
    desk.making.take(request("a"))
    (made,) = desk.next_made()

    assert made.request == request("a")
    assert isinstance(made.guide, ScriptedGuide)
    assert len(desk.making) == 0
    desk.making.close()


def test_who_was_withdrawn_does_not_come_out() -> None:
    gate = threading.Event()

    def slow(_: Request) -> TokenGuide:
        gate.wait()
        return ScriptedGuide([])

    desk = Desk(slow)
    for name in "ab":
        desk.making.take(request(name))
    assert desk.making.withdraw("a") == request("a")
    assert desk.making.withdraw("a") is None
    assert desk.making.withdraw("c") is None
    gate.set()
    names: list[str] = []
    while not names:
        names = [made.request.request_id for made in desk.next_made()]
    assert names == ["b"]
    desk.making.close()


def test_a_pause_goes_with_a_request() -> None:
    gate = threading.Event()

    def slow(_: Request) -> TokenGuide:
        gate.wait()
        return ScriptedGuide([])

    desk = Desk(slow)
    for name in "abc":
        desk.making.take(request(name))
        desk.making.set_paused(name, is_paused=True)
    desk.making.set_paused("b", is_paused=False)
    desk.making.set_paused("never here", is_paused=True)
    gate.set()
    made: dict[str, bool] = {}
    while len(made) < 3:
        made |= {each.request.request_id: each.is_paused for each in desk.next_made()}
    assert made == {"a": True, "b": False, "c": True}
    desk.making.close()


def test_what_goes_wrong_comes_out_as_an_error_and_the_next_is_made() -> None:
    def fail(of: Request) -> TokenGuide:
        match of.request_id:
            case "refused":
                raise EngineError("no such rule")
            case "panic":
                raise BaseException("of a library")
            case _:
                return ScriptedGuide([])

    desk = Desk(fail)
    guides: list[TokenGuide | TailraceError] = []
    for name in ("refused", "panic", "fine"):
        desk.making.take(request(name))
        guides += [made.guide for made in desk.next_made()]

    assert str(guides[0]) == "no such rule"
    assert isinstance(guides[1], EngineError)
    assert "server's log" in str(guides[1])
    assert isinstance(guides[2], ScriptedGuide)
    desk.making.close()
