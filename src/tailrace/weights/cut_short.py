"""What is said when a file becomes shorter than its mapping: whoever then looks at what is gone is ended by SIGBUS.

No Python exception can come of that, but a line that names the file can. The signal comes in the thread that looked,
out of a loop over the file's bytes and nowhere else, so that its handler may run Python.
"""

import ctypes
import mmap
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_byte, c_int, c_void_p

import numpy as np

__all__ = ["name_in_faults", "say_it_to_parent"]

_FAILED = 1
_LONG_S = 60.0
_ADVICE = "serve it when it is complete"
_IS_SUPPORTED = sys.platform == "linux" and sys.maxsize > 1 << 32
_SA_SIGINFO = 4
_LIBC = ctypes.CDLL(None, use_errno=True)


class _SignalInfo(Structure):
    """The beginning of siginfo_t, as 64-bit Linux has it."""

    _fields_ = (("number", c_int), ("error", c_int), ("code", c_int), ("padding", c_int), ("address", c_void_p))


class _Action(Structure):
    """struct sigaction, as 64-bit Linux has it."""

    _fields_ = (("handler", c_void_p), ("mask", c_byte * 128), ("flags", c_int), ("restorer", c_void_p))


def _say_it(message: str) -> None:
    os.write(2, f"tailrace: {message}\n".encode())


class _Mappings:
    """Where files are mapped, and the handler, which is there from the first of them on."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int, str]] = {}
        self._before = _Action()
        self._is_said = False
        self.say: Callable[[str], object] = _say_it
        self._handler = ctypes.CFUNCTYPE(None, c_int, POINTER(_SignalInfo), c_void_p)(self._faulted)

    def add(self, mapping: mmap.mmap, name: str) -> None:
        if not self._places:
            self._take_signal()
        begin = np.frombuffer(mapping, np.uint8).ctypes.data
        key = id(mapping)
        self._places[key] = begin, begin + len(mapping), name
        weakref.finalize(mapping, self._places.pop, key, None).atexit = False

    def _take_signal(self) -> None:
        ours = _Action(handler=ctypes.cast(self._handler, c_void_p), flags=_SA_SIGINFO)
        before = _Action()
        _LIBC.sigaction(signal.SIGBUS, byref(ours), byref(before))
        if before.handler != ours.handler:
            self._before = before

    def _faulted(self, number: int, info: "ctypes._Pointer[_SignalInfo]", context: object) -> None:
        address = info.contents.address or 0
        for begin, end, name in list(self._places.values()):
            if begin <= address < end:
                if self._is_said:
                    time.sleep(_LONG_S)  # another thread is about to end us all
                self._is_said = True
                self.say(f"{name}: the file became shorter while it was read; fetch it again, and {_ADVICE}")
                os._exit(_FAILED)
        _LIBC.sigaction(number, byref(self._before), None)  # not ours: the fault comes again, for whom it concerns


_MAPPINGS = _Mappings()


def name_in_faults(mapping: mmap.mmap, name: str) -> None:
    """Should this mapping lose what it maps, say so with this name, and end the process, which nothing can prevent."""
    if _IS_SUPPORTED:
        _MAPPINGS.add(mapping, name)


def say_it_to_parent(say: Callable[[str], object]) -> None:
    """In a process whose parent says what it ended of: tell it by `say`, and write nothing."""
    _MAPPINGS.say = say
