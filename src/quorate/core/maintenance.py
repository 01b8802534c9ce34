"""What follows the specification beside the control plane itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Maintenance:
    """One thing in the workload cluster that follows the specification: is there anything to do, why it failed last, and when it is tried again."""

    pending: bool = False
    problem: str = ""
    retry_at: datetime | None = None


UP_TO_DATE = Maintenance()
"""Nothing is to be done."""
