"""What the figures were measured on: without it they mean nothing."""

import os
import platform
from pathlib import Path

__all__ = ["describe_machine", "describe_processor"]


def describe_machine() -> str:
    """Processor, cores, memory and Python in one line."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{describe_processor()}, {memory_bytes / 2**30:.0f} GiB, Python {platform.python_version()}"


def describe_processor() -> str:
    """Processor and cores: what times of native code depend on."""
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores"


def _processor() -> str:
    fields = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    }
    name = fields.get("model name", platform.machine())
    return f"{name} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"
