"""What is set for a whole process before its loop runs; so each test has a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

MAPPED = 2
"""The bit in the size before a block of glibc's malloc (malloc.c, IS_MMAPPED)."""
BUFFERS = f"""
import asyncio, ctypes
from quorate.cli.event_loop import run

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

async def mapped_after_a_freed_buffer():
    libc.free(libc.malloc(300 * 1024))  # the first that is freed raises glibc's own threshold
    blocks = [libc.malloc(256 * 1024) for _ in range(100)]
    return sum(bool(ctypes.c_size_t.from_address(block - ctypes.sizeof(ctypes.c_size_t)).value & {MAPPED}) for block in blocks)

print(run(mapped_after_a_freed_buffer()))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc can be told")
def test_large_buffers_are_mapped_one_by_one_even_after_one_was_freed() -> None:
    done = subprocess.run([sys.executable, "-c", BUFFERS], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) > 90, "a few may fit into what is free already"
