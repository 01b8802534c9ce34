"""Who gets a core first: the manager that is measured, and the probe that measures it, before what stands in for other machines.

API server, etcd and a thousand workload clusters run on the same two cores here, and elsewhere where quorate is used. Without this the manager spends most of a
stop on waiting for a core.
"""

from __future__ import annotations

import os
from contextlib import suppress

_OF_OTHERS = 5


def give_way() -> None:
    """This process, and whatever it starts from now on, comes after those that `come_first`."""
    os.setpriority(os.PRIO_PROCESS, 0, _OF_OTHERS)


def come_first(pid: int = 0) -> None:
    """A process that was just started, or this one, and the threads that it has yet to start. Only root may give a process more than it was started with."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, 0)
