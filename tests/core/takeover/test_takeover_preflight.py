"""What keeps a change-over from beginning, each by name; and that none of it keeps anybody from going back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.core.takeover.decide import is_over
from quorate.core.takeover.rules import preflight
from quorate.core.takeover.state import ControlPlane, Definition, Journal, Prospect, Provider, Side
from quorate.core.takeover.steps import Begin, Turn
from tests.core.takeover.world import BOTH_SERVED, NOW, QUORATE, RUNNING, UPSTREAM, begun, decided, refused, world


def test_both_installations_are_saved_before_anything_else() -> None:
    assert decided(world()).step == Begin()


@pytest.mark.parametrize("leaving", [replace(UPSTREAM, exists=False, desired=0, pods=()), replace(UPSTREAM, desired=0, pods=())])
def test_nothing_is_taken_over_from_a_provider_that_does_not_run(leaving: Provider) -> None:
    assert preflight.THERE in refused(world(leaving=leaving))


@pytest.mark.parametrize("version", ["v1.12.3", "v1.15.0", "main"])
def test_a_release_that_quorate_does_not_know_is_refused(version: str) -> None:
    assert preflight.RELEASE in refused(world(core_version=version))
    assert preflight.RELEASE in refused(world(leaving=replace(UPSTREAM, version=version)))


def test_a_release_that_nobody_tells_is_asked_for() -> None:
    assert "--core-version" in refused(world(core_version="", leaving=replace(UPSTREAM, version="")))
    assert decided(world(core_version="v1.13.7", leaving=replace(UPSTREAM, version=""))).step == Begin()


@pytest.mark.parametrize("coming", [replace(QUORATE, label=UPSTREAM.label), replace(QUORATE, deployment=UPSTREAM.deployment)])
def test_components_under_upstreams_name_are_refused_since_clusterctl_would_upgrade_them_to_upstreams(coming: Provider) -> None:
    assert preflight.NAMES in refused(world(coming=coming))


@pytest.mark.parametrize(("ours", "theirs"), [({"ClusterTopology"}, set()), (set(), {"MachinePool"})])
def test_gates_that_change_what_a_control_plane_is_have_to_agree(ours: set[str], theirs: set[str]) -> None:
    view = world(coming=replace(QUORATE, gates=frozenset(ours)), leaving=replace(UPSTREAM, gates=frozenset(theirs)))
    assert preflight.GATES in refused(view)


def test_gates_that_only_concern_the_program_may_differ() -> None:
    assert decided(world(leaving=replace(UPSTREAM, gates=UPSTREAM.gates | {"PriorityQueue"}))).step == Begin()


@pytest.mark.parametrize("coming", [replace(QUORATE, watches="default"), replace(QUORATE, filters="a")])
def test_both_look_after_the_same_control_planes(coming: Provider) -> None:
    assert preflight.SCOPE in refused(world(coming=coming))


@pytest.mark.parametrize("lease", ["", "elsewhere/lease"])
def test_two_providers_that_would_act_at_once_are_refused(lease: str) -> None:
    assert preflight.ELECTION in refused(world(coming=replace(QUORATE, lease=lease)))
    assert preflight.ELECTION in refused(world(coming=replace(QUORATE, lease=""), leaving=replace(UPSTREAM, lease="")))


@pytest.mark.parametrize(
    "definition",
    [
        Definition(name="kcp", coming=frozenset({"v1beta2"}), leaving=BOTH_SERVED, stored=frozenset({"v1beta2"})),
        Definition(name="kcp", coming=frozenset({"v1beta2"}), leaving=frozenset({"v1beta2"}), stored=BOTH_SERVED),
    ],
)
def test_no_version_that_is_read_or_stored_is_lost(definition: Definition) -> None:
    assert "v1beta1 would not be served" in refused(world(definitions=(definition,)))


def test_kinds_that_nobody_serves_are_named() -> None:
    assert "Certificate is not served" in refused(world(unserved=("Certificate",)))


def test_whoever_applies_the_objects_again_has_to_be_told_first() -> None:
    owned = world(owners=(("Deployment x/y", "label argocd.argoproj.io/instance"),))
    assert "--owners-told" in refused(owned)
    assert decided(replace(owned, owners_told=True)).step == Begin()


@pytest.mark.parametrize("prospect", [Prospect.AT_REST, Prospect.IN_MOTION])
def test_a_control_plane_at_rest_or_in_motion_goes_on_as_it_is(prospect: Prospect) -> None:
    assert decided(world(control_planes=(ControlPlane(name="default/a", prospect=prospect, evidence="x"),))).step == Begin()


@pytest.mark.parametrize("prospect", [Prospect.OTHERWISE, Prospect.UNCLEAR])
def test_a_control_plane_that_would_be_changed_or_cannot_be_judged_is_vouched_for_or_refused(prospect: Prospect) -> None:
    view = world(control_planes=(ControlPlane(name="default/a", prospect=prospect, evidence="deletes a-1"),))
    assert "deletes a-1 -> Look at it with `quorate explain`. To go on all the same: --accept default/a." in refused(view)
    assert decided(replace(view, accepted=frozenset({"default/a"}))).step == Begin()


def test_nobody_begins_without_having_looked_at_the_control_planes() -> None:
    assert "nobody has looked" in refused(world(control_planes=None))


def test_upstream_gets_its_control_planes_back_whatever_becomes_of_them() -> None:
    over = Journal(Side.QUORATE, NOW, done=True)
    view = world(goal=Side.UPSTREAM, coming=UPSTREAM, leaving=RUNNING, journal=over, control_planes=None)
    assert decided(view).step == Turn(Side.UPSTREAM)


def test_a_change_that_is_over_is_over() -> None:
    assert is_over(decided(world(journal=Journal(Side.QUORATE, NOW, done=True))))


def test_what_has_begun_goes_on_or_back_whatever_does_not_fit() -> None:
    bad = replace(QUORATE, lease="elsewhere/lease")
    assert decided(begun(coming=bad)).step is not None
    assert decided(begun(coming=bad, goal=Side.UPSTREAM)).step == Turn(Side.UPSTREAM)


def test_whatever_is_being_put_back_for_a_reason_is_put_back_first() -> None:
    back = Journal(Side.UPSTREAM, NOW, "no Pod came up")
    step = decided(world(coming=UPSTREAM, leaving=RUNNING, journal=back, control_planes=None)).step
    assert step is not None
    assert not isinstance(step, Turn)
    over = replace(back, done=True)
    assert decided(world(journal=over)).step == Turn(Side.QUORATE)
