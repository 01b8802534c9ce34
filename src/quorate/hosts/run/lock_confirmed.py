"""Whether a run that has some locks may change anything: it may while nobody else can be confirmed as well. Pure; the simulation asks it, too.

A run is confirmed by the Lease, which one run has at a time, or by the locks of more than half of the control-plane hosts, which two runs cannot have at once.
The latter alone counts only for a run that has just asked the API for the Lease in vain: it was not somebody else's, as far as anybody answered.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.hosts.run.lock_file import LASTS

TRUSTED = 25.0
"""Seconds after its last renewal for which a lock is known to be ours without being renewed again: what is written then arrives while it still lasts, since a
request to an API server or to etcd is given up after 30 s at most."""
_NEVER = float("-inf")


def confirmed_until(now: float, *, lease: float | None, asked: float | None, locks: Iterable[float], hosts: int) -> float | None:
    """Until when nobody else can be confirmed; None where this run is not.

    Each number is the second at which a request was sent: `lease` the one that took or renewed the Lease last, `asked` the last one to the API, whether it was
    answered or not, and `locks` those of the control-plane hosts, `hosts` of which count.
    """
    majority = sorted(locks, reverse=True)[: hosts // 2 + 1]
    by_lease = _NEVER if lease is None else lease
    by_hosts = _NEVER if asked is None or len(majority) <= hosts // 2 else min(asked, *majority)
    newest = max(by_lease, by_hosts)
    return newest + LASTS if now - newest <= TRUSTED else None
