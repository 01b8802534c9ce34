"""Rules of the in-place family that are wrong on purpose: whoever asks them gets the wrong answer, wherever it is asked."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping

import pytest

from quorate.core.checks import passed
from quorate.core.hosts import decide as table

YES = passed("disabled", "by the test")
"""The answer of a check that is none."""


def put_wrong(monkeypatch: pytest.MonkeyPatch, places: Mapping[str, object]) -> None:
    """No module of the rules or the steps calls these functions any more, each `module:name`, but gets the answer; a function is called in their place."""
    for place, answer in places.items():
        module, _, name = place.partition(":")
        function = vars(importlib.import_module(f"quorate.core.hosts.{module}"))[name]
        instead = answer if callable(answer) else lambda *_arguments, _answer=answer, **_named: _answer
        for loaded in [loaded for key, loaded in sys.modules.items() if key.startswith(("quorate.core.hosts", "quorate.hosts.act"))]:
            for key in [key for key, value in vars(loaded).items() if value is function]:
                monkeypatch.setattr(loaded, key, instead)
        monkeypatch.setattr(table, "RULES", tuple((rule, instead if judged is function else judged) for rule, judged in table.RULES))
