"""`quorate` as its user runs it: a process, whose events are read while they come, and which can be killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]

DEADLINE = 1800.0
"""Seconds for one command; an upgrade of three hosts takes a quarter of that on two cores."""
_PROGRAM = str(Path(sys.executable).with_name("quorate"))


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended. `seconds` is the time from its start to its end."""

    arguments: tuple[str, ...]
    code: int
    output: str
    errors: str
    seconds: float

    @property
    def events(self) -> list[Event]:
        """The lines of `-o json` of a run."""
        return [json.loads(line) for line in self.output.splitlines() if line.startswith('{"event"')]

    @property
    def document(self) -> Any:
        """What `-o json` of any other command printed."""
        return json.loads(self.output)

    @property
    def steps(self) -> list[str]:
        """The steps that were carried out to their end, in order."""
        return [event["step"] for event in self.events if event["event"] == "StepDone"]

    def succeeded(self) -> Done:
        """This, where the command ended with 0; otherwise an assertion that shows what it said."""
        assert self.code == 0, self.told()
        return self

    def told(self) -> str:
        """Everything that it said, without what it saw in between, for a failing test."""
        events = [event for event in self.events if event["event"] != "Observed"]
        lines = [json.dumps(event) for event in events] or self.output.splitlines()
        return "\n".join(
            (f"quorate {' '.join(self.arguments)} ended with {self.code} after {self.seconds:.0f} s", self.errors, *lines[-60:])
        )


class Running:
    """A command that was started. Its stdout is read line by line; a test that gives up ends it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = tuple(arguments)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (read when the process has ended)
        self._began = time.monotonic()
        self._lines: list[str] = []
        self._process = subprocess.Popen(
            [_PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=_environment()
        )

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event that is wanted. Asserts that there is one before the command ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            event: Event = json.loads(line) if line.startswith('{"event"') else {"event": ""}
            if wanted(event):
                return event
        done = self.ended()
        raise AssertionError(f"what the test waits for did not come: {done.told()}")

    def killed(self) -> Done:
        """End it at once, as by SIGKILL: it can clean up nothing."""
        self._process.send_signal(signal.SIGKILL)
        return self.ended()

    def stop(self) -> None:
        """Let nothing of it happen from now on, as by Ctrl-Z or on a laptop that is closed."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """As if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    def ended(self) -> Done:
        """Wait for its end."""
        assert self._process.stdout is not None
        try:
            self._lines += self._process.communicate(timeout=DEADLINE)[0].splitlines(keepends=True)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self._errors.seek(0)
        seconds = time.monotonic() - self._began
        with self._errors:
            return Done(self._arguments, self._process.returncode, "".join(self._lines), self._errors.read(), seconds)


def quorate(*arguments: str) -> Done:
    """Run a command to its end."""
    return Running(arguments).ended()


def progress(host: str, *words: str) -> Callable[[Event], bool]:
    """An event of progress on this host that says all these words."""

    def wanted(event: Event) -> bool:
        return event["event"] == "Progress" and event["host"] == host and all(word in event["what"] for word in words)

    return wanted


def begun(step: str) -> Callable[[Event], bool]:
    """The event that a step begins whose words start so."""
    return lambda event: event["event"] == "StepBegun" and event["step"].startswith(step)


def done(step: str) -> Callable[[Event], bool]:
    """The event that such a step is done."""
    return lambda event: event["event"] == "StepDone" and event["step"].startswith(step)


def broken(step: str) -> Callable[[Event], bool]:
    """The event that such a step failed."""
    return lambda event: event["event"] == "StepBroke" and event["step"].startswith(step)


def _environment() -> dict[str, str]:
    """That of a user without an SSH agent, whose keys would be tried before the manifest's."""
    return {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
