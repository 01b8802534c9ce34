"""What the provider logs while it is simulated: errors that nobody planned for are a finding, decisions go into the journal, everything else is dropped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from quorate.clusterapi.act.creation import CreationFailed
from quorate.clusterapi.connect.foreign import ContractMissing
from quorate.etcd.errors import EtcdError
from quorate.kubernetes.errors import ApiError, ConnectionFailed
from quorate.simulation.engine.journal import current
from quorate.workload.access import AccessUnavailable

_PLANNED = (ApiError, CreationFailed, ConnectionFailed, EtcdError, AccessUnavailable, ContractMissing, TimeoutError)
"""What a reconcile may fail with: somebody else's trouble, which it tries again."""
_DECIDED = "step"
"""What the reconciler logs between a decision and the act. Without it every removal of a member would count as one without a reading made for it."""


@contextmanager
def unplanned_errors(told: Callable[[BaseException], None]) -> Iterator[None]:
    """Tell of every logged exception that is none of the planned ones, for as long as this lasts; nothing is printed meanwhile.

    The journal of a process whose log tells of a decision hears of that, too.
    """

    def look(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.ProcessorReturnValue:
        journal = current.get()
        if journal is not None and event.get("event") == _DECIDED:
            journal.decided()
        error = event.get("exc_info")
        if isinstance(error, BaseException):
            for leaf in leaves(error):
                if not isinstance(leaf, _PLANNED):
                    told(leaf)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[look], wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        yield
    finally:
        structlog.configure(**before)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside a group, or the exception itself; of a part that could not be made, what it failed with."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    elif isinstance(error, CreationFailed) and error.__cause__ is not None:
        yield from leaves(error.__cause__)
    else:
        yield error
