"""The preflight of every change in the number of replicas, and the version gate that upstream lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core import quorum
from quorate.core.checks import Check
from quorate.core.etcd_versions import FLAGS_KNOWN, MEMBERS_READY
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines import checks
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.preflight import WORKLOAD_PREPARED, before_deleting, before_joining, version_is_near, version_is_not_below
from quorate.core.machines.state import Certificates, ControlPlane, Remediation, Replica
from quorate.core.machines.steps import CreateReplica, DeleteReplica
from quorate.core.maintenance import Maintenance
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version, minor_distance

if TYPE_CHECKING:
    from tests.core.conftest import Build

JOIN = CreateReplica("", initialize=False)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def refused(asked: tuple[Check, ...]) -> list[str]:
    """The names of the checks that did not pass."""
    return [check.name for check in asked if not check.passed]


def two(build: Build, *, other: Replica | None = None, **changes: Any) -> ControlPlane:
    """Two good replicas of three desired, or one and another."""
    return replace(build.control_plane(build.replica(1), other or build.replica(2)), **changes)


# Both ways


def test_all_healthy_passes(build: Build) -> None:
    down = build.three(desired=build.desired(1))
    assert refused(before_joining(two(build))) == []
    assert refused(before_deleting(down, down.replica("cp-1"))) == []


def test_without_machines_nothing_but_the_lack_of_one_that_serves_is_said(build: Build) -> None:
    assert refused(before_joining(build.control_plane(build.vanishing(1, member=Absent()), ring="g"))) == [checks.COMPONENTS_SURVIVE]


@pytest.mark.parametrize("pending", ["v1.35.0", "v1.36.0"], ids=["the step after this one", "the target itself"])
def test_a_topology_version_that_is_ahead_is_waited_for_in_both_directions(build: Build, pending: str) -> None:
    down = build.three(desired=build.desired(1), topology_pending=pending)
    for asked in (before_joining(two(build, topology_pending=pending)), before_deleting(down, down.replica("cp-1"))):
        assert refused(asked) == [checks.TOPOLOGY]
        assert f"waiting for version {pending} to be propagated" in [check.evidence for check in asked]


def test_an_upgrade_step_that_has_arrived_is_not_waited_for(build: Build) -> None:
    assert refused(before_joining(two(build, topology_pending=""))) == []


def test_a_deleting_machine_is_waited_for_in_both_directions(build: Build) -> None:
    up = build.control_plane(build.replica(1), build.leaving(2))
    down = build.control_plane(build.replica(1), build.replica(2), build.leaving(3), desired=1)
    assert refused(before_joining(up)) == [checks.NOBODY_LEAVES]
    assert refused(before_deleting(down, down.replica("cp-1"))) == [checks.NOBODY_LEAVES]


def test_certificates_that_are_missing_stop_growth_and_not_shrinking(build: Build) -> None:
    lost = Certificates(missing=("ca",))
    up, down = two(build, certificates=lost), build.three(certificates=lost, desired=build.desired(1))
    assert decide(up, build.noon).step is None
    assert decide(down, build.noon).step == DeleteReplica("cp-1")


def test_a_machine_without_a_node_is_named_for_components_and_etcd(build: Build) -> None:
    assert refused(before_joining(two(build, other=build.joining(2)))) == [checks.COMPONENTS_HEALTHY, checks.MEMBERS_HEALTHY]


@pytest.mark.parametrize("health", [Health.BAD, Health.UNKNOWN])
@pytest.mark.parametrize(("part", "name"), [("component_findings", checks.COMPONENTS_HEALTHY), ("member_findings", checks.MEMBERS_HEALTHY)])
@pytest.mark.parametrize("missing", [False, True])
def test_each_condition_must_exist_and_be_true(build: Build, health: Health, part: str, name: str, missing: bool) -> None:
    findings = () if missing else (("Condition", Finding(health, "Seen")),)
    assert refused(before_joining(two(build, other=build.replica(2, **{part: findings})))) == [name]


def test_an_external_etcd_that_the_api_servers_cannot_reach_stops_both_directions(build: Build) -> None:
    external = build.desired(3, etcd_managed=False)
    bad = Finding(Health.BAD, "Readyz", "refused")
    up = two(build, desired=external, external_etcd=bad, ring=Unknown("external"))
    down = build.three(desired=replace(external, replicas=1), external_etcd=bad, ring=Unknown("external"))
    assert refused(before_joining(up)) == [checks.MEMBERS_HEALTHY]
    assert refused(before_deleting(down, down.replica("cp-1"))) == [checks.MEMBERS_HEALTHY]


# While a replacement is missing (8.1 F5)

MARK = Remediation("cp-9", None)


def test_marker_set_and_the_ring_bears_one_more_passes_although_another_machine_is_bad(build: Build) -> None:
    bad = two(build, other=build.ill(2))
    assert refused(before_joining(bad)) == [checks.COMPONENTS_HEALTHY]
    assert refused(before_joining(replace(bad, remediating=MARK))) == []


def test_marker_set_and_no_good_control_plane_left_is_a_matter_of_components_alone(build: Build) -> None:
    control_plane = build.control_plane(build.ill(1), build.ill(2), remediating=MARK)
    assert refused(before_joining(control_plane)) == [checks.COMPONENTS_SURVIVE]


@pytest.mark.parametrize("ring", ["gb", "gG", "g-", "", "ggb"])
def test_marker_set_and_quorum_at_risk_is_a_matter_of_etcd_alone(build: Build, ring: str) -> None:
    control_plane = two(build, other=build.ill(2), remediating=MARK, ring=build.ring(ring))
    assert refused(before_joining(control_plane)) == [quorum.QUORUM_SURVIVES_ADDITION]


def test_marker_set_relaxes_nothing_on_the_way_down(build: Build) -> None:
    control_plane = build.control_plane(build.ill(1), build.ill(2), build.replica(3), desired=1, remediating=MARK)
    assert checks.COMPONENTS_HEALTHY in refused(before_deleting(control_plane, control_plane.replica("cp-1")))


def test_marker_set_and_everybody_well_is_judged_as_ever(build: Build) -> None:
    assert [check.name for check in before_joining(two(build, remediating=MARK))] == [check.name for check in before_joining(two(build))]


# The only one, deleted by its user


def test_the_only_one_is_joined_by_its_replacement_before_it_leaves(build: Build) -> None:
    for waits in (True, False):
        control_plane = build.control_plane(build.leaving(1, waits_at_hook=waits), desired=1)
        assert decide(control_plane, build.noon).step == JOIN


def test_its_replacement_is_the_only_machine_above_what_is_desired(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.joining(2), desired=1)
    decision = decide(control_plane, build.noon)
    assert decision.step is None
    assert decision.refusals


def test_once_its_replacement_votes_and_serves_it_leaves_like_any_other(build: Build) -> None:
    step = decide(build.control_plane(build.leaving(1), build.replica(2), desired=1), build.noon).step
    assert str(step) == "remove etcd member 1 of cp-1"


def test_without_a_surge_the_only_one_of_one_is_held_and_the_way_out_is_named(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), desired=build.desired(1, max_surge=0))
    decision = decide(control_plane, build.noon)
    assert decision.step is None
    assert any("maxSurge 1" in check.remedy for check in decision.refusals if check.name == checks.ROOM)


def test_without_a_surge_the_last_of_three_is_joined_once_the_spares_are_gone(build: Build) -> None:
    desired = build.desired(3, max_surge=0)
    crowded = build.control_plane(build.leaving(1), *(build.vanishing(number, member=Absent()) for number in (2, 3)), desired=desired)
    decision = decide(crowded, build.noon)
    assert decision.step is None
    assert [check.remedy for check in decision.refusals if check.name == checks.ROOM] == [""]
    assert decide(build.control_plane(build.leaving(1), desired=desired), build.noon).step == JOIN


@pytest.mark.parametrize("ring", ["b", "", "G"])
def test_nobody_joins_the_only_one_unless_its_ring_can_commit(build: Build, ring: str) -> None:
    control_plane = build.control_plane(build.leaving(1), desired=1, ring=ring)
    assert decide(control_plane, build.noon).step is None


def test_nobody_joins_the_only_one_when_it_does_not_serve(build: Build) -> None:
    control_plane = build.control_plane(build.ill(1, deleting_since=build.noon, waits_at_hook=True), desired=1)
    assert decide(control_plane, build.noon).step is None


# Versions


def running(build: Build, *versions: str, kubelet: str = "") -> list[Replica]:
    """One replica for each version; the first one with this kubelet."""
    return [
        build.replica(number, version=version, kubelet_version=kubelet if number == 1 else "")
        for number, version in enumerate(versions, start=1)
    ]


@pytest.mark.parametrize(
    ("target", "versions", "kubelet", "fits"),
    [
        ("v1.35.0", ("v1.34.4", "v1.34.4"), "", True),
        ("v1.35.0", ("v1.35.0", "v1.34.4"), "v1.34.4", True),
        ("v1.34.5", ("v1.34.4", "v1.34.4"), "", True),
        ("v1.36.0", ("v1.34.4", "v1.35.0"), "", False),
        ("v1.36.0", ("v1.35.0", "v1.35.0"), "v1.34.9", False),
        ("v1.33.0", ("v1.33.0", "v1.35.0"), "", False),
        ("v2.0.0", ("v1.34.4",), "", False),
        ("v1.34.4", (), "", True),
        ("v1.34.4", ("unreadable", ""), "unreadable too", True),
        ("v1.34.4", ("v1.33.0", "v1.34.0", "v1.35.0"), "", True),
    ],
)
def test_the_version_is_at_most_one_minor_from_every_version_and_kubelet_that_runs(
    build: Build, target: str, versions: tuple[str, ...], kubelet: str, fits: bool
) -> None:
    assert version_is_near(Version.parse(target), running(build, *versions, kubelet=kubelet)).passed is fits


@pytest.mark.parametrize(
    ("target", "versions", "fits"),
    [
        ("v1.34.4", ("v1.34.4", "v1.34.4"), True),
        ("v1.33.9", ("v1.34.4", "v1.34.4"), False),
        ("v1.34.3", ("v1.34.4", "v1.34.4"), False),
        ("v1.34.4-rc.0", ("v1.34.4",), False),
        ("v1.33.9", ("v1.34.4", "v1.33.9"), True),
        ("v1.33.9", ("v1.34.4", "v1.33.1"), True),
        ("v1.33.9", ("unreadable",), True),
        ("v1.33.9", (), True),
    ],
    ids=[
        "the same",
        "a minor back",
        "a patch back",
        "back to its candidate",
        "back in the middle of a rollout",
        "between two that run",
        "unreadable versions are left out",
        "nobody runs",
    ],
)
def test_a_version_below_every_one_that_runs_is_refused(build: Build, target: str, versions: tuple[str, ...], fits: bool) -> None:
    assert version_is_not_below(Version.parse(target), running(build, *versions)).passed is fits


def test_one_that_is_let_go_already_makes_its_version_no_way_back(build: Build) -> None:
    target = build.desired(3, version=Version.parse("v1.33.9"))
    going = build.vanishing(3, version="v1.33.9", member=Absent())
    control_plane = build.control_plane(build.replica(1), build.replica(2), going, desired=target)
    assert refused(before_joining(control_plane)) == [checks.VERSION_NOT_BELOW]


def test_one_that_is_let_go_already_still_runs_too_far_from_the_next_version(build: Build) -> None:
    target = build.desired(3, version=Version.parse("v1.35.0"))
    going = build.vanishing(3, version="v1.33.9", member=Absent())
    control_plane = build.control_plane(build.replica(1), build.replica(2), going, desired=target)
    assert refused(before_joining(control_plane)) == [checks.VERSION_NEAR]


def with_etcd(build: Build, *versions: str, **wanted: Any) -> ControlPlane:
    """Two good replicas of three desired whose members run these versions of etcd."""
    members = tuple(Member(number, f"cp-{number}", Health.GOOD, version=version) for number, version in enumerate(versions, start=1))
    return two(build, ring=Ring(members, 1), desired=build.desired(3, **wanted))


def test_the_next_minor_version_of_etcd_joins_only_members_that_are_ready_for_it(build: Build) -> None:
    assert refused(before_joining(with_etcd(build, "3.6.11", "3.6.8", etcd_minor=(3, 7)))) == [MEMBERS_READY]
    assert refused(before_joining(with_etcd(build, "3.6.11", "3.6.11", etcd_minor=(3, 7)))) == []
    assert refused(before_joining(with_etcd(build, "3.6.11", "3.6.8", etcd_minor=None))) == []


def test_nor_is_a_replica_deleted_for_a_replacement_whose_etcd_could_not_join(build: Build) -> None:
    control_plane = with_etcd(build, "3.6.8", "3.6.8", etcd_minor=(3, 7))
    assert refused(before_deleting(control_plane, control_plane.replica("cp-1"))) == [MEMBERS_READY]
    last_one = with_etcd(build, "3.6.8", "3.6.11", etcd_minor=(3, 7))
    assert MEMBERS_READY not in refused(before_deleting(last_one, last_one.replica("cp-1"))), (
        "the member that is not ready is the one that leaves"
    )


def test_an_etcd_that_would_not_start_with_its_flags_joins_nobody(build: Build) -> None:
    wanted = {"etcd_minor": (3, 7), "etcd_flags": ("experimental-initial-corrupt-check",)}
    assert refused(before_joining(with_etcd(build, "3.6.11", "3.6.11", **wanted))) == [FLAGS_KNOWN]


def test_of_an_external_etcd_no_version_is_asked(build: Build) -> None:
    assert MEMBERS_READY not in refused(before_joining(with_etcd(build, "3.6.8", etcd_minor=(3, 7), etcd_managed=False)))


def test_each_refusal_of_a_version_names_the_versions_and_the_way_out(build: Build) -> None:
    high = version_is_near(Version.parse("v1.36.0"), running(build, "v1.34.4", "v1.35.0"))
    low = version_is_near(Version.parse("v1.33.0"), running(build, "v1.33.0", "v1.35.0"))
    back = version_is_not_below(Version.parse("v1.33.0"), running(build, "v1.34.4", "v1.34.5"))
    assert (high.evidence, high.remedy) == (
        "v1.36.0 is more than one minor above v1.34.4, which still runs",
        "Set spec.version to a version of v1.35 first.",
    )
    assert (low.evidence, low.remedy) == (
        "v1.33.0 is more than one minor below v1.35.0, which runs already",
        "Set spec.version to at least v1.34.",
    )
    assert back.evidence == "v1.33.0 is older than v1.34.4, the oldest version that runs"
    assert "Set spec.version to v1.34.4 or later" in back.remedy


@given(st.integers(30, 36), st.lists(st.integers(30, 36), min_size=1, max_size=5))
def test_from_versions_one_minor_apart_no_permitted_step_leads_further_apart(target: int, minors: list[int]) -> None:
    versions = [Version.parse(f"v1.{minor}.0") for minor in minors]
    replicas = [Replica(f"cp-{minor}", str(version), NEW_YEAR, Absent()) for minor, version in zip(minors, versions, strict=True)]
    wanted = Version.parse(f"v1.{target}.0")
    if max(minors) - min(minors) <= 1 and version_is_near(wanted, replicas).passed:
        spread = [minor_distance(one, other) for one in (*versions, wanted) for other in (*versions, wanted)]
        assert all(distance is not None and abs(distance) <= 1 for distance in spread)


def test_a_version_out_of_reach_stops_every_creation_in_a_condition(build: Build) -> None:
    for target in ("v1.36.0", "v1.33.0"):
        decision = decide(two(build, desired=build.desired(3, version=Version.parse(target))), build.noon)
        assert decision.step is None
        assert any(check.remedy for check in decision.refusals)


def test_a_version_out_of_reach_stops_no_scaling_down(build: Build) -> None:
    down = build.three(desired=build.desired(1, version=Version.parse("v1.36.0")))
    assert decide(down, build.noon).step == DeleteReplica("cp-1")


# A deletion that needs a replacement


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"template_problem": "not found"}, checks.TEMPLATE),
        ({"certificates": Certificates(missing=("etcd",))}, checks.CERTIFICATES),
        ({"certificates": Certificates(problem="forbidden")}, checks.CERTIFICATES),
        ({"preparation": Maintenance(pending=True, problem="forbidden")}, WORKLOAD_PREPARED),
    ],
)
def test_what_no_replacement_could_follow_is_not_deleted(build: Build, changes: dict[str, Any], name: str) -> None:
    control_plane = replace(build.three(), **changes)
    assert refused(before_deleting(control_plane, control_plane.replica("cp-1"))) == [name]
    assert refused(before_deleting(replace(control_plane, desired=build.desired(1)), control_plane.replica("cp-1"))) == []


def test_the_version_of_the_one_that_goes_is_not_held_against_its_replacement(build: Build) -> None:
    ahead = build.replica(3, version="v1.36.0")
    control_plane = build.control_plane(build.replica(1), build.replica(2), ahead)
    assert refused(before_deleting(control_plane, ahead)) == []
    assert refused(before_deleting(control_plane, control_plane.replica("cp-1"))) == [checks.VERSION_NEAR]
