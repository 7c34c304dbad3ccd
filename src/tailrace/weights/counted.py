"""Tensors that tell how many of them have been looked up: how far a back end is with loading."""

from collections.abc import Callable, Iterator, Mapping

from tailrace.ops.packed import PackedTensor

__all__ = ["CountedTensors", "LoadProgress"]

LoadProgress = Callable[[int, int], None]  # tensors looked up, tensors in all


class CountedTensors(Mapping[str, PackedTensor]):
    def __init__(self, tensors: Mapping[str, PackedTensor], progress: LoadProgress) -> None:
        self._tensors = tensors
        self._progress = progress
        self._seen: set[str] = set()

    def __getitem__(self, name: str) -> PackedTensor:
        tensor = self._tensors[name]
        if name not in self._seen:
            self._seen.add(name)
            self._progress(len(self._seen), len(self._tensors))
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
