import mmap

from benchmarks.kernels.hardware import PAGE_FAULTS, HardwareCounter, why_no_counter

NUM_PAGES = 300


def touch_new_pages() -> None:
    with mmap.mmap(-1, NUM_PAGES * mmap.PAGESIZE) as memory:
        for page in range(NUM_PAGES):
            memory[page * mmap.PAGESIZE] = 1


def test_a_counter_counts_the_call_or_there_is_a_reason_why_not() -> None:
    reason = why_no_counter(PAGE_FAULTS)
    assert reason is None or "perf_event_paranoid" in reason
    if reason is None:
        counter = HardwareCounter(PAGE_FAULTS)
        assert counter.count(touch_new_pages) >= NUM_PAGES
        assert counter.count(lambda: None) < NUM_PAGES
        counter.close()
