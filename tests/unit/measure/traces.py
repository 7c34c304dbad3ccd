"""Small traces of prompts that share prefixes, drawn at random."""

from hypothesis import strategies as st

from tailrace.measure.trace import BLOCK_TOKENS, PromptTrace, TracedPrompt

__all__ = ["trace_of", "traces"]

Path = tuple[int, ...]


def trace_of(*paths: Path, gaps_s: tuple[float, ...] = ()) -> PromptTrace:
    """A prompt for each path through a tree; equal beginnings of paths are equal blocks. The gaps lie in front."""
    ids: dict[Path, int] = {}
    prompts, at_s = [], 0.0
    for index, path in enumerate(paths):
        at_s += gaps_s[index] if gaps_s else 1.0
        blocks = tuple(ids.setdefault(path[: depth + 1], len(ids)) for depth in range(len(path)))
        prompts.append(TracedPrompt(at_s, len(blocks) * BLOCK_TOKENS, blocks))
    return PromptTrace(tuple(prompts))


@st.composite
def traces(draw: st.DrawFn, max_prompts: int = 30, max_depth: int = 4, max_fork: int = 2) -> PromptTrace:
    path = st.lists(st.integers(0, max_fork), min_size=1, max_size=max_depth).map(tuple)
    paths = draw(st.lists(path, min_size=1, max_size=max_prompts))
    gaps_s = draw(st.lists(st.sampled_from([0.0, 1.0, 20.0, 40.0, 400.0, 4000.0]), min_size=30, max_size=30))
    return trace_of(*paths, gaps_s=tuple(gaps_s))
