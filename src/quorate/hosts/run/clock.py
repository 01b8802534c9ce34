"""The time of one run: what the operator's clock showed when it began, and from then on the seconds that pass, whatever is done to that clock.

What is counted within a run is counted by it: when a probe finds somebody silent for the second time, how long a run waits, and how far clocks of hosts are
apart. A clock that NTP or a person sets meanwhile would call a member dead early, or keep the next probe from counting for hours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def since_boot() -> float:
    """Seconds that go on while the process, or the machine, is suspended. (macOS, which has no CLOCK_BOOTTIME, counts sleep in CLOCK_MONOTONIC.)"""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def wall() -> datetime:
    """What the operator's clock shows, aware and in UTC."""
    return datetime.now(UTC)


def steady() -> Callable[[], datetime]:
    """A clock that begins with what the operator's shows now."""
    began, at = since_boot(), wall()
    return lambda: at + timedelta(seconds=since_boot() - began)
