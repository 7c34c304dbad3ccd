"""The engine's end of the channels: commands of API processes go into the intake, its events and answers come out."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from tailrace.engine.board import Board
from tailrace.engine.channel import Channel, wake_all
from tailrace.engine.desk import Desk
from tailrace.engine.intake import Intake
from tailrace.engine.numbers import worker_of
from tailrace.engine.probation import Probation
from tailrace.engine.wire import Abort, Command, Pause, Proceed, Submit, number_of
from tailrace.errors import InvalidRequest, TailraceError
from tailrace.ring import Told, push_events
from tailrace.types import CacheAnswer, CacheQuery, FinishReason, TokenEvent

__all__ = ["EngineBridge"]

logger = logging.getLogger(__name__)

_LAG_LOOK_S = 0.01  # how soon it is seen that a process which lags has caught up
_LOOK_S = 1.0  # whether all is well, if nobody rings


class EngineBridge:
    """`publish` and `reply` are called by the step loop. A thread reads commands between `start` and `close`.

    `generation` is this engine's: what is for others is passed over. `on_failure` is called on that thread when it ends
    by itself: nobody would hear of it otherwise.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        board: Board,
        intake: Intake,
        generation: int,
        on_failure: Callable[[], None],
    ) -> None:
        self._channels = channels
        self._board = board
        self._intake = intake
        self._generation = generation
        self._on_failure = on_failure
        self._bell = channels[0].engine_bell
        self._lock = threading.Lock()  # of the desks, and of who sits where
        self._desks = [Desk(each, generation, board.worker_generation(each.owner)) for each in channels]
        self._homes: dict[str, Desk] = {}
        self._told: dict[str, Told] = {}  # of those that nothing waits for: plain tokens need no look
        self._probation = Probation()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="tailrace-bridge", daemon=True)

    def start(self) -> None:
        """Take commands, and let all know it."""
        self._thread.start()
        self._board.ready(self._generation)
        wake_all(self._channels)

    def close(self) -> None:
        """Take no more commands. What was published can still be read."""
        self._is_closing = True
        self._bell.ring()
        self._thread.join()

    def publish(self, events: Sequence[TokenEvent]) -> None:
        """Pass events on, each to its process; those of nobody are dropped."""
        with self._lock:
            self._board.published_s = time.monotonic()
            if self._probation.saw(events):
                self._bell.ring()
            index = 0
            while (index := push_events(events, self._told, self._generation, index)) < len(events):
                self._tell(events[index])
                index += 1
            for event in events:
                if event.finish_reason is not None and event.request_id in self._homes:
                    self._leave(event.request_id)
            for desk in self._desks:
                self._settle(desk)

    def reply(self, answer: CacheAnswer) -> None:
        """Pass an answer on."""
        with self._lock:
            desk = self._desks[worker_of(answer.query_id)]
            desk.answer(answer)
            self._settle(desk)

    def numbers(self, request_ids: Iterable[str]) -> list[int]:
        """Of these requests, without those that have ended."""
        with self._lock:
            homes = ((request_id, self._homes.get(request_id)) for request_id in request_ids)
            return [home.told[request_id].number for request_id, home in homes if home is not None]

    def _run(self) -> None:
        try:
            while not self._is_closing:
                if not self.take_in():
                    self._bell.wait(_LAG_LOOK_S if any(desk.is_lagging for desk in self._desks) else _LOOK_S)
        except Exception:
            logger.exception("the engine can take no more commands")
            self._on_failure()

    def take_in(self) -> bool:
        """Act upon what there is, or part of it; False when there was nothing. What the thread does again and again."""
        is_any = False
        for desk in self._desks:
            self._look_at_worker(desk)
            for command in desk.commands():
                is_any = True
                self._act(desk, command)
            if desk.is_lagging:
                self._catch_up(desk)
        self._look_at_probation()
        return is_any

    def _look_at_worker(self, desk: Desk) -> None:
        """Whether another process has taken the place of the one that was there: end what that one wanted."""
        worker_generation = self._board.worker_generation(desk.owner)
        if worker_generation == desk.worker_generation:
            return
        with self._lock:
            orphans = list(desk.told)
            for request_id in orphans:
                self._leave(request_id)
            desk.succeed(worker_generation)
        self._probation.withdraw_all(lambda number: worker_of(number) == desk.owner)
        for request_id in orphans:
            self._intake.abort(request_id)

    def _act(self, desk: Desk, command: Command) -> None:
        number = number_of(command)
        if not desk.is_of_now(number):
            self._look_at_worker(desk)
            if not desk.is_of_now(number):
                return
        match command:
            case Submit():
                self._submit(desk, command)
            case Abort():
                self._abort(desk, number, command.reason)
            case Pause():
                self._pause(desk, number)
            case Proceed():
                self._proceed(desk, number)
            case _:
                self._ask(desk, command)

    def _submit(self, desk: Desk, submit: Submit) -> None:
        request = submit.request
        if request.request_id in self._homes:
            self._refuse(desk, submit.number, InvalidRequest(f"request id {request.request_id!r} is in use"))
            return
        with self._lock:
            self._homes[request.request_id] = desk
            self._board.num_requests = len(self._homes)
            told = desk.enter(submit.number, request.request_id, len(request.output_ids))
            if not desk.num_waiting:
                self._told[request.request_id] = told
        if submit.is_suspect:
            self._probation.hold(submit)
        else:
            self._let_in(desk, submit)

    def _let_in(self, desk: Desk, submit: Submit) -> None:
        request_id = submit.request.request_id
        try:
            self._intake.submit(submit.request)
        except TailraceError as error:
            self._probation.release(submit.number)
            self._refuse(desk, submit.number, error)
            with self._lock:
                self._leave(request_id)
            return
        if desk.is_lagging or request_id in desk.paused_ids:
            self._intake.pause(request_id)

    def _abort(self, desk: Desk, number: int, reason: FinishReason) -> None:
        request_id = desk.request_ids.get(number)
        if request_id is None:
            return
        if self._probation.withdraw(number) is None:
            self._intake.abort(request_id, reason)
            return
        with self._lock:
            self._leave(request_id)

    def _pause(self, desk: Desk, number: int) -> None:
        with self._lock:
            request_id = desk.request_ids.get(number)
            if request_id is not None:
                desk.paused_ids.add(request_id)
                self._intake.pause(request_id)

    def _proceed(self, desk: Desk, number: int) -> None:
        with self._lock:
            request_id = desk.request_ids.get(number)
            if request_id is not None:
                desk.paused_ids.discard(request_id)
                if not desk.is_lagging and request_id not in self._probation.aside:
                    self._intake.proceed(request_id)

    def _ask(self, desk: Desk, query: CacheQuery) -> None:
        try:
            self._intake.ask(query)
        except TailraceError as error:
            self._refuse(desk, query.query_id, error)

    def _refuse(self, desk: Desk, number: int, error: TailraceError) -> None:
        with self._lock:
            desk.refuse(number, error)
            self._settle(desk)

    def _tell(self, event: TokenEvent) -> None:
        """Pass on what is no plain token, or found no room."""
        desk = self._homes.get(event.request_id)
        if desk is None:
            return
        had_room = not desk.num_waiting
        desk.tell(event)
        if had_room and desk.num_waiting:  # from now on, what comes waits behind this
            for request_id in desk.told:
                self._told.pop(request_id, None)

    def _leave(self, request_id: str) -> None:
        self._homes.pop(request_id).leave(request_id)
        self._board.num_requests = len(self._homes)
        self._told.pop(request_id, None)

    def _settle(self, desk: Desk) -> None:
        """Wake a process that was told something; let its requests pause when it begins to lag."""
        desk.ring()
        if not desk.is_lagging and desk.look():
            for request_id in desk.told:
                self._intake.pause(request_id)

    def _catch_up(self, desk: Desk) -> None:
        """Tell a process that lags what there is room for, and let its requests go on if that is all."""
        with self._lock:
            desk.flush()
            desk.ring()
            if not desk.num_waiting:
                self._told.update(desk.told)
            if not desk.look():
                for request_id in desk.told.keys() - desk.paused_ids - self._probation.aside.keys():
                    self._intake.proceed(request_id)

    def _look_at_probation(self) -> None:
        """Let in the next one when the last is past. One that must wait for its process holds up nobody."""
        with self._lock:
            current = self._probation.current
            if current is not None and self._desks[worker_of(current.number)].is_lagging:
                self._probation.set_aside()
            for aside in list(self._probation.aside.values()):
                self._bring_back(aside)
        while (submit := self._probation.next()) is not None:
            self._let_in(self._desks[worker_of(submit.number)], submit)

    def _bring_back(self, submit: Submit) -> None:
        """Let one that had to wait go on, once it can, and alone: of two, the next death would not tell who it was."""
        desk, request_id = self._desks[worker_of(submit.number)], submit.request.request_id
        if submit.number not in desk.request_ids:
            del self._probation.aside[request_id]  # it has ended
        elif self._probation.is_free and not desk.is_lagging and request_id not in desk.paused_ids:
            self._probation.bring_back(request_id)
            self._intake.proceed(request_id)
