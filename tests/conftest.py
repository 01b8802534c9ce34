"""Which tests `make unit` leaves to `make test`; and what every test run tells at its end: how many states the exhaustive checks went through, and what was
simulated, wherever their tests ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Not 200 ms for each example, which are missed where others work beside it: pytest's own limit ends a test that hangs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

STATES = "states"
"""The property in which a test records how many states it judged; it travels with the report from a worker process too."""
SIMULATIONS = "simulations"
"""The property in which a test records each simulation: for how many seconds, with how many faults, and with how many violations."""

_THOROUGH = (
    *("proof", "simulation", "explore", "scale", "core/test_decide.py", "core/hosts/test_hosts_exhaustive.py", "cli/test_other_systems.py"),
    *("hosts/observe", "hosts/probe", "hosts/test_fence.py", "hosts/test_hostile_manifest.py", "hosts/test_manifest_fields.py"),
)
"""Folders and files of tests that take more than 10 s: thousands of cases, whole simulated clusters, or scripts that a shell runs for hundreds of hosts."""
_YEAR = 365 * 86400.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark those that `make unit` leaves out."""
    thorough = [Path(__file__).parent / each for each in _THOROUGH]
    for item in items:
        if any(item.path.is_relative_to(each) for each in thorough):
            item.add_marker("thorough")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line each, where any test counted states, or simulated."""
    counts = [value for value in _recorded(terminalreporter, STATES) if isinstance(value, int)]
    if counts:
        terminalreporter.write_line(f"exhaustive check: {sum(counts):,} states judged in {len(counts)} families")
    simulations = [value for value in _recorded(terminalreporter, SIMULATIONS) if isinstance(value, list)]
    if simulations:
        seconds, faults, violations = (sum(column) for column in zip(*simulations, strict=True))
        terminalreporter.write_line(
            f"simulation: {len(simulations)} simulations, {seconds / _YEAR:.4f} cluster-years, {faults:,} faults, {violations} violations"
        )


def _recorded(terminalreporter: pytest.TerminalReporter, wanted: str) -> Iterator[object]:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            if report.when == "call":
                yield from (value for name, value in report.user_properties if name == wanted)
