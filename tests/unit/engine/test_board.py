import os

from tailrace.engine.board import Board, EngineState


def test_what_one_process_writes_the_others_read() -> None:
    board = Board(max_running=4)
    child = os.fork()
    if child == 0:
        board.ready(1)
        board.running = [7, 1 << 63]
        board.target_scale = 2.5
        board.published_s = 12.25
        os._exit(0)
    os.waitpid(child, 0)
    assert board.ready_generation == 1
    assert board.running == (7, 1 << 63)
    assert board.target_scale == 2.5
    assert board.published_s == 12.25


def test_who_takes_the_place_of_another_was_started_again() -> None:
    board = Board(max_running=4)
    assert (board.num_engine_restarts, board.num_worker_restarts) == (0, 0)
    for generation in (1, 2, 3):
        board.begin(generation, 0.0, 1.0)
    for index in (0, 1):
        board.begin_worker(index)
    for index in (1, 0, 1):
        before = board.worker_generation(index)
        assert board.replace_worker(index) == board.worker_generation(index) == before + 1
    assert (board.num_engine_restarts, board.num_worker_restarts) == (2, 3)


def seen(board: Board) -> tuple[EngineState, bool]:
    return board.state, board.is_ready


def test_an_engine_is_ready_in_its_own_generation_alone() -> None:
    board = Board(max_running=4)
    assert seen(board) == (EngineState.STARTING, False)
    board.begin(1, now_s=0.0, allowed_s=60.0)
    assert seen(board) == (EngineState.RUNNING, False)
    board.ready(1)
    assert seen(board) == (EngineState.RUNNING, True)
    board.lose([5])
    assert seen(board) == (EngineState.RECOVERING, False)
    board.begin(2, now_s=0.0, allowed_s=60.0)
    assert seen(board) == (EngineState.RUNNING, False)
    assert board.suspects == (5,)
    board.fail(retry_at_s=12.5)
    assert seen(board) == (EngineState.FAILED, False)
    assert board.retry_at_s == 12.5


def test_who_does_not_come_round_in_time_is_overdue() -> None:
    board = Board(max_running=4)
    board.begin(1, now_s=100.0, allowed_s=60.0)
    assert board.overdue_s(159.0) < 0.0
    board.beat(110.0, 10.0)
    assert board.overdue_s(119.0) < 0.0
    assert board.overdue_s(121.0) == 1.0


def test_a_worker_that_answers_is_silent_since_it_came_round_last() -> None:
    board = Board(max_running=4)
    generation = board.begin_worker(1)
    assert board.worker_silent_s(1, now_s=500.0) == 0.0, "it has not answered yet"
    board.beat_worker(1, 100.0)
    board.worker_ready(1, generation)
    assert board.worker_silent_s(1, now_s=103.0) == 3.0
    assert board.worker_silent_s(1, now_s=103.0, awake_s=102.5) == 0.5
    board.beat_worker(1, 104.0)
    assert board.worker_silent_s(1, now_s=105.0) == 1.0
    board.begin_worker(1)
    assert board.worker_silent_s(1, now_s=500.0) == 0.0, "it died, and its place is taken"


def test_no_more_numbers_are_kept_than_there_is_room_for() -> None:
    board = Board(max_running=2)
    board.lose([1, 2, 3])
    assert board.suspects == (1, 2)
    assert [board.begin_worker(0), board.begin_worker(0), board.worker_generation(1)] == [1, 2, 0]
