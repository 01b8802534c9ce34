"""Observes hosts, ring and API once, and makes the frozen value that the decision reads. Changes nothing."""

from __future__ import annotations

from quorate.hosts.observe.memory import Memory
from quorate.hosts.observe.observation import Observation
from quorate.hosts.observe.observe import observe

__all__ = ["Memory", "Observation", "observe"]
