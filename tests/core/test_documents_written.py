"""YAML that quorate writes, read by the library that Kubernetes' own programs read it with."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core import documents

KUBECTL = Path(__file__).parents[2] / ".bin" / "kubectl"
WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "", "<<", "=", ".inf", "-.inf", "+.inf", ".nan")
NUMBERS = (
    *("1", "-1", "+1", "0", "00", "08", "010", "0o10", "0b1", "0x1F", "-0x1f", "1_000", "1__0", "0_1"),
    *("1.", "1.5", ".5", "-.5", "+.5e3", "1e3", "8e9", "12e4", "1E-3", "1.5e+3", "1e", "1_0e1_0", "0x", "0b", "0o", "1e999"),
    *("+_1", "-_8", "-_8.", "-_.0", "0_xE", "0_o1", "0_b1", "0b-1", "0b+1", "1_:30"),
    *("1:30", "190:20:30", "190:20:30.15", "12:30:45", "2001-01-01", "2001-12-14t21:59:43.10-05:00", "2001-99-99"),
)
OTHERS = (
    "10.0.0.1",
    "v1.34.4",
    "1.34.4",
    "a: b",
    "- a",
    "#a",
    "a #b",
    "[a",
    "{a",
    "&a",
    "*a",
    "!a",
    "%a",
    "@a",
    "`a",
    "'a'",
    '"a"',
    "a\nb",
    " a ",
    "é",
    "\t",
)
SCALARS = (*WORDS, *(word.upper() for word in WORDS), *(word.capitalize() for word in WORDS), *NUMBERS, *OTHERS)


def test_every_scalar_that_yaml_or_go_resolves_stays_the_text_that_it_is() -> None:
    labels = {f"k{number}": text for number, text in enumerate(SCALARS)}
    keys = {f"{text}" for text in ("y", "n", "1e3", "08", "on")}
    written = documents.dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {**labels, **dict.fromkeys(sorted(keys), "text")}}
    )
    command = [str(KUBECTL), "annotate", "--local", "-f", "-", "-o", "json", "read=true"]
    done = subprocess.run(
        command, input=written.encode(), capture_output=True, timeout=60, check=False, env={**os.environ, "KUBECONFIG": "/none"}
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["data"] == {**labels, **dict.fromkeys(keys, "text")}


@pytest.mark.parametrize("text", sorted({*WORDS, *NUMBERS} - {"1e"}))
def test_what_yaml_or_go_takes_for_something_else_than_a_text_stands_in_quotes(text: str) -> None:
    assert documents.dump([text]) in (f'- "{text}"\n', f"- '{text}'\n")


@given(st.text())
def test_what_is_written_is_what_is_read(text: str) -> None:
    try:
        assert documents.load(documents.dump({"a": text, "b": [text]})) == {"a": text, "b": [text]}
    except documents.NotADocument:
        pytest.fail(f"{text!r} cannot be read again")


def test_shared_parts_are_written_out_and_what_is_no_number_stands_without_quotes() -> None:
    shared = {"a": "10.0.0.1"}
    assert documents.dump({"one": shared, "two": shared}) == "one:\n  a: 10.0.0.1\ntwo:\n  a: 10.0.0.1\n"
