"""A process that forks while it has a model: the child lets go of what it has inherited, and of no thread."""

from tailrace.app import plan_model
from tailrace.config import EngineConfig
from tailrace.weights.load import open_checkpoint
from tests.support.killed import forked

PATIENCE_S = 60.0


def test_a_child_lets_go_of_a_model_whose_threads_are_its_parent_s() -> None:
    """Beside one of its own, whose threads may lie where the parent's did."""
    config = EngineConfig(backend="cpu", kv_memory_bytes=8 << 20, max_model_tokens=64, max_running=2, num_threads=4)
    packed = plan_model(open_checkpoint("tiny-deepseek"), config).pack()
    inherited = packed.start().executable

    def run() -> None:
        own = packed.start().executable
        inherited.close()
        own.close()

    child = forked(run)
    child.join(PATIENCE_S)
    code = child.exitcode
    child.kill()
    child.join()
    inherited.close()
    assert code == 0
