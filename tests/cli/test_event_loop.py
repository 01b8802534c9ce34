"""What is set for a whole process before its loop runs; so each test has a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

BUFFERS = """
import asyncio, ctypes
from quorate.cli.event_loop import run

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

async def resident_after_a_freed_buffer():
    libc.free(libc.malloc(300 * 1024))  # the first that is freed raises glibc's own threshold
    used = [libc.malloc(100 * 1024) for _ in range(100)]
    for block in used:
        ctypes.memset(block, 1, 100 * 1024)
    keeps_the_heap = libc.malloc(1024)
    for block in used:
        libc.free(block)
    untouched = [libc.malloc(256 * 1024) for _ in range(30)]
    return sum(ctypes.string_at(block + 4096, 1) != b"\\0" for block in untouched)

print(run(resident_after_a_freed_buffer()))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc can be told")
def test_large_buffers_are_not_made_of_memory_that_others_used() -> None:
    done = subprocess.run([sys.executable, "-c", BUFFERS], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0\n"
