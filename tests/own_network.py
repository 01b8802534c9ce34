"""A pytest plugin that gives every worker of pytest-xdist a network namespace of its own, so that local stacks run side by side: CAPD fixes ports.

For `python -m pytest -n 2 -p tests.own_network` (`pytest` alone does not find it); it needs root. Whatever a worker starts is in its namespace too, which
ends with the last of them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

_CLONE_NEWNET = 0x40000000  # of sched.h; Python has os.unshare from 3.12
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1  # of linux/sockios.h and net/if.h
_WORKER = "PYTEST_XDIST_WORKER"


def pytest_configure() -> None:
    """Before anything is collected, in a worker only: the process that spreads the tests starts nothing."""
    if _WORKER in os.environ:
        enter()


def enter() -> None:
    """Leave the machine's network for one in which there is only loopback. Raises OSError without the right to."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "a worker got no network namespace of its own")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
