"""Progress of long steps: one line each with the time it took; on a terminal the time counts while one waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_TICK = 1.0  # seconds between updates of a line on a terminal


class Progress:
    """Writes steps to a stream. Not on a terminal: no control characters, and a line once the step has ended."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Announce a step, and once the block ends say how long it took, or that it failed."""
        began, ended = self._clock(), threading.Event()
        ticker = threading.Thread(target=self._tick, args=(name, began, ended), daemon=True)
        self._write(f"{name} ...")
        if self._terminal:
            ticker.start()
        word = "failed after "
        try:
            yield
            word = ""
        finally:
            ended.set()
            if self._terminal:
                ticker.join()
            start = f"\r{name} ..." if self._terminal else ""
            self._write(f"{start} {word}{self._clock() - began:.1f} s\n")

    def _tick(self, name: str, began: float, ended: threading.Event) -> None:
        while not ended.wait(_TICK):
            self._write(f"\r{name} ... {self._clock() - began:.0f} s")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
