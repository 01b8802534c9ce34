"""A comparison is made once for the same contents, and never answers for others: not after a change of either side, and not once a control plane is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.observe import comparisons
from quorate.clusterapi.observe.comparisons import Comparisons
from quorate.core.versions import Version
from quorate.kubeadm import machine_config
from quorate.kubeadm.compare import Difference, differences
from quorate.kubeadm.known_fields import EVERYTHING
from quorate.kubernetes.controller import Request

if TYPE_CHECKING:
    from quorate.kubeadm.config import Spec
    from quorate.kubeadm.known_fields import KnownFields
    from tests.clusterapi.loop.conftest import World

DEMO, OTHER = Request("default", "demo"), Request("default", "other")
OLD, NEW = Version.parse("v1.30.4"), Version.parse("v1.34.4")
SPEC: dict[str, Any] = {"clusterConfiguration": {"certificatesDir": "/pki"}}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Version]:
    """The versions of the comparisons that were really made."""
    seen: list[Version] = []

    def counted(desired: Spec, current: Spec, version: Version, fields: KnownFields) -> tuple[Difference, ...]:
        seen.append(version)
        return differences(desired, current, version, fields)

    monkeypatch.setattr(comparisons, "differences", counted)
    return seen


def joined(spec: dict[str, Any], version: Version = NEW) -> dict[str, Any]:
    return machine_config(spec, version=version, init=False)


def test_equal_contents_are_compared_once_though_they_were_read_anew(made: list[Version]) -> None:
    memory = Comparisons()
    for _ in range(3):
        assert memory.begin(DEMO, EVERYTHING)(dict(SPEC), joined(SPEC), NEW) == ()
    assert len(made) == 1


def test_a_change_on_either_side_or_of_the_version_is_seen_in_the_same_pass() -> None:
    memory = Comparisons()
    changed = {"clusterConfiguration": {"certificatesDir": "/other"}}
    asked = [(SPEC, joined(SPEC), NEW), (changed, joined(SPEC), NEW), (SPEC, joined(changed), NEW), (SPEC, joined(SPEC), OLD)]
    for _ in range(2):
        compare = memory.begin(DEMO, EVERYTHING)
        assert [compare(*question) for question in asked] == [differences(*question) for question in asked]
    assert [bool(differences(*question)) for question in asked] == [False, True, True, True]


def test_what_a_pass_does_not_ask_for_is_forgotten() -> None:
    memory = Comparisons()
    compare = memory.begin(DEMO, EVERYTHING)
    compare(SPEC, joined(SPEC), NEW)
    compare(SPEC, joined(SPEC, OLD), NEW)
    assert len(memory) == 2
    memory.begin(DEMO, EVERYTHING)(SPEC, joined(SPEC), NEW)
    assert len(memory) == 1


def test_control_planes_do_not_share_and_one_that_is_gone_leaves_nothing() -> None:
    memory = Comparisons()
    for request in (DEMO, OTHER):
        memory.begin(request, EVERYTHING)(SPEC, joined(SPEC), NEW)
    memory.forget(DEMO)
    assert len(memory) == 1
    memory.forget(OTHER)
    assert len(memory) == 0


async def test_an_observed_control_plane_compares_each_machine_once_until_it_is_gone(three: World, made: list[Version]) -> None:
    for _ in range(3):
        await three.look()
    assert len(three.observer.comparisons) == 1  # three that are alike
    assert len(made) <= 1
    kcp = three.caches.kcps.items()[0]
    three.caches.kcps.remove(kcp)
    assert await three.observer.observe(Request(kcp.metadata.namespace, kcp.metadata.name)) is None
    assert len(three.observer.comparisons) == 0
