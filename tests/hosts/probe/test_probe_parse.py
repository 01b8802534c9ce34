"""Whatever arrives from a host can be read: what is cut off or makes no sense is unknown, and never something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.health import Unknown
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.probe.parse import parse
from tests.hosts.probe.machine import Folder, joined

_KEYS = (
    b"os",
    b"running_for",
    b"clock",
    b"ports",
    b"manifests",
    b"manifest.etcd.yaml",
    b"kubeconfig.admin",
    b"certificate.ca",
    b"unit.kubelet.service",
    b"etcd_health",
)


@cache
def whole() -> bytes:
    """The answer of a control plane host."""
    with TemporaryDirectory() as path:
        folder = Folder(Path(path))
        joined(folder)
        return folder.probe()


def flattened(facts: HostFacts) -> dict[str, Any]:
    """Every fact by a name of its own; manifests are one fact, as they are whole or unknown."""
    found: dict[str, Any] = {}
    for each in fields(facts):
        value = getattr(facts, each.name)
        if isinstance(value, Mapping) and each.name != "manifests":
            found |= {f"{each.name}.{name}": fact for name, fact in value.items()}
        else:
            found[each.name] = value
    return found


@given(st.data())
def test_a_cut_answer_leaves_each_fact_as_it_is_or_unknown(data: st.DataObject) -> None:
    output = whole()
    cut = data.draw(st.integers(0, len(output)))
    expected = flattened(parse(output))
    for name, fact in flattened(parse(output[:cut])).items():
        assert fact == expected[name] or isinstance(fact, Unknown), name


def test_of_no_answer_every_fact_is_unknown_for_the_reason_given() -> None:
    reason = Unknown("the connection ended", "Look at the host")
    assert set(flattened(parse(b"", reason)).values()) == {reason}


@given(st.binary(max_size=400))
def test_no_bytes_make_the_parser_raise(output: bytes) -> None:
    parse(output)


@given(
    st.lists(
        st.tuples(st.sampled_from(_KEYS), st.sampled_from([b"=", b"-", b"?"]), st.lists(st.binary(max_size=30), max_size=6)), max_size=8
    )
)
def test_no_fields_make_the_parser_raise(lines: list[tuple[bytes, bytes, list[bytes]]]) -> None:
    parse(b"".join(b"\t".join([key, kind, *values]) + b"\n" for key, kind, values in lines))


@pytest.mark.parametrize(
    "line",
    [
        b"running_for\t=\tnan",
        b"running_for\t=\t" + b"9" * 300,
        b"clock\t=\t" + b"9" * 5000,
        b"ports\t=\t\xc2\xb2",
        b"certificate.ca\t=\tAAAA",
        b"certificate.ca\t=\t****",
        b"manifests\t=\t3",
        b"etcd_health\t=\t999\tok",
        b"etcd_data\t=\tmaybe",
        b"key.ca\t=",
        b"manifest.a.yaml\t=\t" + b"0" * 64 + b'\timage\t"--flag=\\x00',
    ],
)
def test_what_makes_no_sense_is_unknown(line: bytes) -> None:
    unknown = flattened(parse(line + b"\nend\t=\n"))
    assert all(isinstance(fact, Unknown) for fact in unknown.values())


def test_a_manifest_that_did_not_arrive_is_not_taken_for_one_that_is_missing() -> None:
    output = b"".join(line for line in whole().splitlines(keepends=True) if not line.startswith(b"manifest.etcd.yaml"))
    assert isinstance(parse(output).manifests, Unknown)
