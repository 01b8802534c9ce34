"""Logs on stderr: JSON lines under the key names of controller-runtime, or readable lines on a terminal."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Sequence
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from quorate.core.text import printable


def configure(*, level: int, json: bool, stream: TextIO | None = None) -> None:
    """Send everything of `level` (as in `logging`) and above to stderr, the libraries' own messages included. Idempotent."""
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        _error,
    ]
    last: Sequence[Processor] = (
        (structlog.processors.EventRenamer("msg"), structlog.processors.JSONRenderer()) if json else (_printable, _console())
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=first, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    structlog.configure(
        processors=[*first, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def quiet(*, debug: bool) -> None:
    """The logs of a command that a person runs: none (nothing here logs at CRITICAL), or with `--debug` all of them."""
    configure(level=logging.DEBUG if debug else logging.CRITICAL, json=False)


def _console() -> Processor:
    from structlog.dev import ConsoleRenderer

    return ConsoleRenderer(colors=sys.stderr.isatty(), timestamp_key="ts")


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """What libraries log of what they were sent, such as the version that an SSH server names, is not made printable by anybody before."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = "\n".join(map(printable, value.split("\n"))) if name == "stacktrace" else printable(value)
    return event


def _error(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """An exception becomes `error` and `stacktrace`, as zap writes them for controller-runtime."""
    given = event.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["error"] = f"{type(error).__name__}: {error}"
        event["stacktrace"] = "".join(traceback.format_exception(error))
    return event
