"""Running one coroutine to its end, on uvloop where it can be imported: its TLS costs 256 KiB a connection less."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_M_MMAP_THRESHOLD, _LARGE = -3, 128 * 1024  # glibc's malloc.h, and what its threshold is at first


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it; what it raises is raised. Ctrl-C cancels it and raises KeyboardInterrupt."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    _keep_large_blocks_apart()
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(coroutine)


def _keep_large_blocks_apart() -> None:
    """Have glibc map blocks of 128 KiB and more one by one.

    uvloop has a buffer of 256 KiB for each TLS connection and touches a few pages of it. As soon as one has been freed, glibc takes the next from the heap, out
    of pages that others have used, and all of it counts. `quorate manager` with 30 control planes: 114 instead of 125 MiB. Other libraries have no such knob.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
