"""What every test run tells at its end: how many states the exhaustive checks went through, wherever their tests ran."""

from __future__ import annotations

import pytest

STATES = "states"
"""The property in which a test records how many states it judged; it travels with the report from a worker process too."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line, where any test counted states."""
    counts = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
        for name, value in report.user_properties
        if name == STATES and isinstance(value, int)
    ]
    if counts:
        terminalreporter.write_line(f"exhaustive check: {sum(counts):,} states judged in {len(counts)} families")
