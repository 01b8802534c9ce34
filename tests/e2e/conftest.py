"""Hosts for each module, which end with it; scenarios that stand on the one before them; and what was measured, said at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from statistics import median

import pytest

from quorate.local.errors import LocalError
from tests.e2e.machines import Machines
from tests.e2e.nodes.engine import Engine
from tests.e2e.site import Site

Measured = Callable[[str], None]

_FAILED = pytest.StashKey[str]()
_MEASURED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--keep-hosts` leaves the hosts of each module running, to be looked at; `make hosts-end` ends them."""
    parser.addoption("--keep-hosts", action="store_true", help="leave the hosts of end-to-end tests running")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A network with a load balancer and everything that hosts install from; no host yet."""
    machines = Machines(Engine())
    try:
        yield Site(machines.start(), tmp_path_factory.mktemp("site"))
    except LocalError as error:
        pytest.fail(f"{error}\n`make nodes` makes what is missing")
    finally:
        if not request.config.getoption("keep_hosts"):
            machines.end()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Takes a sentence with what was measured."""
    return request.config.stash.setdefault(_MEASURED, []).append


def several(seconds: Sequence[float]) -> str:
    """The same thing measured several times: each of them, and their median."""
    return f"{', '.join(f'{each:.0f}' for each in seconds)} s (median {median(seconds):.0f})"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember the first scenario of a module that failed."""
    report = yield
    if report.failed and item.parent is not None:
        item.parent.stash.setdefault(_FAILED, item.name)
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Scenarios of a module stand on each other: after one that failed the others would only tell the same again."""
    failed = item.parent.stash.get(_FAILED, "") if item.parent is not None else ""
    if failed:
        pytest.skip(f"it stands on what {failed} leaves, which failed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was measured."""
    if lines := config.stash.get(_MEASURED, []):
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.line(line)
