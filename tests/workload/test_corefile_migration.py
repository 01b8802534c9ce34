"""Corefiles carried from version to version: as upstream's library does it, and better where that loses something."""

from __future__ import annotations

import json
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from quorate.workload.corefile import Corefile, Line, parse, value
from quorate.workload.corefile_migration import VERSIONS, migrate, parse_tag
from quorate.workload.updates import CannotUpdate

RECORDED = json.loads((Path(__file__).parent / "corefile_migrations.json").read_text())
"""What github.com/coredns/corefile-migration v1.0.34 answered to random Corefiles; it has been compared on 20,000 of them."""


def _meaning(text: str) -> Any:
    """The tree without the order of its lines, in which both differ and CoreDNS does not care."""

    def of(lines: Corefile) -> Any:
        return sorted(_line(line) for line in lines if line.words)

    def _line(line: Line) -> Any:
        return tuple(value(word) for word in line.words), tuple(of(line.block or ()))

    return of(parse(text))


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['from']} to {case['to']}")
def test_corefiles_are_migrated_as_upstreams_library_does_it(case: dict[str, Any]) -> None:
    if case["refused"]:
        with pytest.raises(CannotUpdate):
            migrate(case["corefile"], case["from"], case["to"])
    else:
        assert _meaning(migrate(case["corefile"], case["from"], case["to"])) == _meaning(case["migrated"])


@pytest.mark.parametrize(
    ("current", "target"), [("v1.11.3", "v1.12.1"), ("v1.12.1", "v1.13.1"), ("v1.10.1", "v1.14.6"), ("v1.9.3", "v1.9.3-vendor.1")]
)
def test_between_the_versions_that_supported_releases_ship_not_a_letter_changes(current: str, target: str) -> None:
    text = ".:53   { # as the user likes it\n  errors\n  kubernetes cluster.local {\n pods insecure\n }\n}\n"
    assert migrate(text, current, target) == text


def test_all_changes_of_a_long_way_are_made_in_order() -> None:
    text = """.:53 {
    health
    kubernetes cluster.local in-addr.arpa {
        upstream
        resyncperiod 5m
        transfer to * # everybody
        endpoint http://a http://b
    }
    proxy . /etc/resolv.conf {
        policy first
        protocol dns force_tcp
    }
    proxy stub.org 10.0.0.1
    proxy other.org 10.0.0.2
}
"""
    assert _meaning(migrate(text, "1.1.3", "1.14.6")) == _meaning(""".:53 {
    health {
        lameduck 5s
    }
    kubernetes cluster.local in-addr.arpa {
        endpoint http://a
    }
    forward . /etc/resolv.conf {
        policy sequential
        force_tcp
        max_concurrent 1000
    }
    loop
    ready
    transfer cluster.local in-addr.arpa {
        to *
    }
}
stub.org {
    forward . 10.0.0.1 {
        max_concurrent 1000
    }
    loop
    errors
    cache 30
}
other.org {
    forward . 10.0.0.2 {
        max_concurrent 1000
    }
    loop
    errors
    cache 30
}
""")


def test_migrating_in_two_strides_is_migrating_in_one() -> None:
    text = ".:53 {\n health\n kubernetes cluster.local {\n  upstream\n  transfer to *\n }\n proxy . /etc/resolv.conf\n}\n"
    whole = _meaning(migrate(text, VERSIONS[0], VERSIONS[-1]))
    for between in VERSIONS[1:-1]:
        assert _meaning(migrate(migrate(text, VERSIONS[0], between), between, VERSIONS[-1])) == whole


@pytest.mark.parametrize(
    ("current", "target", "said"),
    [
        ("v1.12.1", "v1.11.3", "cannot go back"),
        ("v1.11.2", "v1.12.1", "v1.11.2 is not a version"),
        ("v1.12.1", "v1.99.0", "v1.99.0 is not a version"),
        ("v1.11.2", "v1.11.2", "v1.11.2 is not a version"),
        ("latest", "v1.12.1", "'latest' is no version"),
    ],
)
def test_what_cannot_be_migrated_is_refused_by_name(current: str, target: str, said: str) -> None:
    with pytest.raises(CannotUpdate, match=said):
        migrate(". {\n}\n", current, target)


def test_a_corefile_that_cannot_be_read_is_refused_with_its_line() -> None:
    with pytest.raises(CannotUpdate, match="line 1"):
        migrate(". {\n errors\n", "1.11.3", "1.12.0")


def test_a_stub_domain_that_has_no_block_of_its_own_to_go_to_is_refused() -> None:
    with pytest.raises(CannotUpdate, match=r"stub\.org"):
        migrate("a.org b.org {\n forward stub.org 10.0.0.1\n}\n", "1.3.1", "1.4.0")


@pytest.mark.parametrize(
    ("tag", "version"), [("v1.11.3", (1, 11, 3)), ("1.12", (1, 12, 0)), ("v1.8.4_vendor.7", (1, 8, 4)), ("1.9.3-eks.1", (1, 9, 3))]
)
def test_versions_are_read_off_the_tags_that_vendors_use(tag: str, version: tuple[int, int, int]) -> None:
    assert parse_tag(tag) == version


@pytest.mark.parametrize("corefile", [".:53 {\n" + "a " * (1 << 20) + "\n}\n", "a {\n" * 5000 + "}\n" * 5000], ids=["large", "deep"])
def test_a_corefile_that_is_larger_or_deeper_than_any_is_refused_with_the_way_out(corefile: str) -> None:
    """32 MiB, which a tenant's API server may answer with, take half a minute and 2 GiB of the process that all share, each time it is tried again."""
    with pytest.raises(CannotUpdate, match=r"ConfigMap kube-system/coredns cannot be read: .*skip-coredns"):
        migrate(corefile, "1.11.1", "1.12.0")


def test_thousands_of_stub_domains_hold_nobody_up() -> None:
    """Each was compared with all others: four times as many took 16 times as long."""

    def taken(count: int) -> float:
        corefile = ".:53 {\n" + "".join(f"forward {number} x\n" for number in range(count)) + "}\n"
        started = thread_time()
        assert migrate(corefile, "1.3.1", "1.4.0").count("forward . x") == count
        return thread_time() - started

    few, many = (min(taken(count) for _ in range(5)) for count in (2000, 8000))  # whoever else works on this machine slows some of them
    assert many < 10 * few


def test_what_is_said_of_a_server_block_of_a_thousand_zones_stays_a_line() -> None:
    with pytest.raises(CannotUpdate) as raised:
        migrate("zone.org " * 10_000 + "{\n forward stub.org 10.0.0.1\n}\n", "1.3.1", "1.4.0")
    assert len(str(raised.value)) < 1000
