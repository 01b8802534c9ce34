"""When a Machine is up to date: each way to differ, in upstream's words, what counts as equal because it cannot be read, and what time alone changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.observe import machines
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Annotation
from quorate.core.versions import Version
from quorate.kubeadm import machine_config

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
CLONED = {Annotation.CLONED_FROM_NAME: "small", Annotation.CLONED_FROM_GROUP_KIND: "DevMachineTemplate.example.org"}


def control_plane(version: str = "v1.34.4", **spec: Any) -> KubeadmControlPlane:
    reference = {"apiGroup": "example.org", "kind": "DevMachineTemplate", "name": "small"}
    template = {"spec": {"infrastructureRef": reference}}
    body = {"metadata": {"name": "cp", "namespace": "default"}, "spec": {"version": version, "machineTemplate": template, **spec}}
    return msgspec.convert(body, KubeadmControlPlane)


def machine(*, expires: datetime | None = None) -> Machine:
    """A Machine that was made at noon."""
    status = {"certificatesExpiryDate": expires} if expires else {}
    metadata = {"name": "cp-1", "namespace": "default", "creationTimestamp": NOON}
    return msgspec.convert({"metadata": metadata, "spec": {"version": "v1.34.4", "clusterName": "demo"}, "status": status}, Machine)


def config(spec: dict[str, Any]) -> KubeadmConfig:
    """The KubeadmConfig of a Machine that joined by this specification."""
    made = machine_config(spec, version=Version.parse("v1.34.4"), init=False)
    return msgspec.convert({"metadata": {"name": "cp-1"}, "spec": made}, KubeadmConfig)


def infrastructure(annotations: dict[str, str]) -> ForeignObject:
    return msgspec.convert({"kind": "DevMachine", "metadata": {"name": "cp-1", "annotations": annotations}}, ForeignObject)


def ways(
    kcp: KubeadmControlPlane,
    observed: Machine | None = None,
    made_with: KubeadmConfig | None = None,
    clone: ForeignObject | None = None,
    now: datetime = NOON + DAY,
) -> list[str]:
    """In which ways a Machine that was made at noon differs a day later."""
    return [way.message for way in machines.outdated(kcp, observed or machine(), made_with, clone, now)]


def test_a_machine_that_differs_in_nothing_is_up_to_date() -> None:
    assert ways(control_plane(), made_with=config({}), clone=infrastructure(CLONED)) == []


def test_another_version_is_wanted() -> None:
    assert ways(control_plane("v1.35.0")) == ["Version v1.34.4, v1.35.0 required"]


def test_another_configuration_is_wanted_and_explain_names_the_field() -> None:
    kcp = control_plane(kubeadmConfigSpec={"clusterConfiguration": {"certificatesDir": "/new"}})
    (way,) = machines.outdated(kcp, machine(), config({"clusterConfiguration": {"certificatesDir": "/old"}}), None, NOON)
    assert way.message == "KubeadmConfig is not up-to-date"
    assert way.details == ("clusterConfiguration.certificatesDir: '/old' instead of '/new'",)


def test_a_machine_whose_configuration_cannot_be_read_is_left_alone() -> None:
    assert ways(control_plane(kubeadmConfigSpec={"clusterConfiguration": {"certificatesDir": "/new"}}), made_with=None) == []


@pytest.mark.parametrize(
    ("name", "group_kind"),
    [("large", "OtherTemplate.example.org"), ("large", "DevMachineTemplate.example.org"), ("small", "OtherTemplate.example.org")],
    ids=["name and kind", "name", "kind"],
)
def test_another_template_is_wanted(name: str, group_kind: str) -> None:
    clone = infrastructure({Annotation.CLONED_FROM_NAME: name, Annotation.CLONED_FROM_GROUP_KIND: group_kind})
    assert ways(control_plane(), clone=clone) == ["DevMachine is not up-to-date"]


@pytest.mark.parametrize(
    "annotations", [{}, {Annotation.CLONED_FROM_NAME: "large"}, {Annotation.CLONED_FROM_GROUP_KIND: "Other.example.org"}]
)
def test_infrastructure_that_does_not_say_what_it_was_cloned_from_is_left_alone(annotations: dict[str, str]) -> None:
    assert ways(control_plane(), clone=infrastructure(annotations)) == []


def test_infrastructure_that_cannot_be_read_is_left_alone() -> None:
    assert ways(control_plane(), clone=None) == []


def test_everything_that_differs_is_told_at_once() -> None:
    kcp = control_plane("v1.35.0", rollout={"after": NOON + SECOND, "before": {"certificatesExpiryDays": 7}})
    clone = infrastructure({**CLONED, Annotation.CLONED_FROM_NAME: "large"})
    assert ways(kcp, machine(expires=NOON + 2 * DAY), config({"files": [{"path": "/a"}]}), clone) == [
        "Certificates will expire soon",
        "KubeadmControlPlane spec.rollout.after expired",
        "Version v1.34.4, v1.35.0 required",
        "KubeadmConfig is not up-to-date",
        "DevMachine is not up-to-date",
    ]


# What time alone changes.


@pytest.mark.parametrize(
    ("after", "now", "expected"),
    [
        (NOON + DAY, NOON + DAY, True),
        (NOON + DAY, NOON + 2 * DAY, True),
        (NOON + DAY, NOON + DAY - SECOND, False),
        (NOON, NOON + DAY, False),
        (NOON - DAY, NOON + DAY, False),
    ],
    ids=["at the moment", "later", "before it", "made at that very second", "made later"],
)
def test_rollout_after_replaces_what_was_made_before_it_once_it_has_come(after: datetime, now: datetime, expected: bool) -> None:
    assert ways(control_plane(rollout={"after": after}), now=now) == (
        ["KubeadmControlPlane spec.rollout.after expired"] if expected else []
    )


@pytest.mark.parametrize(
    ("days", "left", "expected"),
    [(10, 10 * DAY, True), (10, 3 * DAY, True), (10, -DAY, True), (10, 10 * DAY + SECOND, False), (2**31 - 1, 3650 * DAY, True)],
    ids=["to the second", "fewer days left", "expired", "not yet", "as many days as the field holds"],
)
def test_rollout_before_replaces_a_machine_so_many_days_before_its_certificate_ends(days: int, left: timedelta, expected: bool) -> None:
    kcp = control_plane(rollout={"before": {"certificatesExpiryDays": days}})
    assert ways(kcp, machine(expires=NOON + left), now=NOON) == (["Certificates will expire soon"] if expected else [])


def test_an_expiry_that_nobody_has_recorded_replaces_nothing() -> None:
    kcp = control_plane(rollout={"before": {"certificatesExpiryDays": 10}})
    assert ways(kcp) == []
    assert machines.outdated_from(kcp, machine(), NOON) is None


AFTER, BEFORE = {"after": NOON + 3 * DAY}, {"before": {"certificatesExpiryDays": 10}}


@pytest.mark.parametrize(
    ("rollout", "moment"),
    [
        ({}, None),
        (AFTER, NOON + 3 * DAY),
        (BEFORE, NOON + 2 * DAY),
        ({**AFTER, **BEFORE}, NOON + 2 * DAY),
        ({"after": NOON - DAY}, None),
        ({"after": NOON + DAY, **BEFORE}, NOON + 2 * DAY),
        ({"before": {"certificatesExpiryDays": 2**31 - 1}}, None),
    ],
    ids=["never", "rollout.after", "rollout.before", "the earlier one", "made later", "only what lies ahead", "already"],
)
def test_the_moment_at_which_time_alone_makes_it_differ_is_known(rollout: dict[str, Any], moment: datetime | None) -> None:
    kcp, observed = control_plane(rollout=rollout), machine(expires=NOON + 12 * DAY)
    assert machines.outdated_from(kcp, observed, NOON + DAY) == moment
    if moment:
        assert ways(kcp, observed, now=moment - SECOND) != ways(kcp, observed, now=moment)


HALF = timedelta(milliseconds=500)


@pytest.mark.parametrize(("now", "expected"), [(NOON + DAY + HALF, False), (NOON + DAY + SECOND, True)])
def test_a_schedule_with_a_fraction_of_a_second_waits_for_the_next_full_one(now: datetime, expected: bool) -> None:
    """An API server writes creation times to the second: what is made half a second past noon was made at noon, and would be replaced for ever."""
    kcp = control_plane(rollout={"after": NOON + DAY + HALF})
    assert bool(ways(kcp, now=now)) is expected
    assert machines.outdated_from(kcp, machine(), NOON) == NOON + DAY + SECOND


def test_what_is_made_as_such_a_schedule_comes_is_not_outdated_by_it() -> None:
    assert ways(control_plane(rollout={"after": NOON - HALF}), now=NOON) == []


def test_the_last_fraction_of_a_second_there_is_rounds_to_nothing() -> None:
    assert ways(control_plane(rollout={"after": datetime.max.replace(tzinfo=UTC)})) == []
