"""The order of a change-over, rule by rule, and what turns it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from quorate.core.takeover import forecast as model
from quorate.core.takeover.decide import decide, only_waits
from quorate.core.takeover.forecast import forecast
from quorate.core.takeover.rules import change
from quorate.core.takeover.state import ControlPlane, Journal, Key, Lease, Part, Prospect, Side, View
from quorate.core.takeover.steps import Begin, Delete, Finish, FreeLease, Put, Step, Stop, Turn
from tests.core.takeover.world import (
    AT_REST,
    ITEMS,
    NOW,
    OUR_ENTRY,
    OURS,
    QUORATE,
    ROLE,
    RUNNING,
    SERVICE,
    SYSTEM,
    THEIR_ENTRY,
    THEIRS,
    UPSTREAM,
    as_coming,
    begun,
    decided,
    world,
)

READY = as_coming(Part.GROUND, Part.RIGHTS, Part.PROVIDER)
MOVED = as_coming(Part.GROUND, Part.RIGHTS, Part.PROVIDER, Part.WEBHOOKS)
GONE = replace(UPSTREAM, desired=0, pods=(), running=0, available=0)
LED = Lease("quorate-1_y", fresh=True)


def test_first_comes_what_takes_nothing_from_the_leaving_provider() -> None:
    assert decided(begun()).step == Put(Key("NetworkPolicy", SYSTEM, OURS.name))
    assert decided(begun(items=as_coming(Part.GROUND))).step == Put(ROLE, both=True)
    assert decided(begun(items=as_coming(Part.GROUND, Part.RIGHTS))).step == Put(OURS)


def test_rights_of_the_coming_provider_alone_are_widened_while_the_leaving_one_runs() -> None:
    narrow = tuple(replace(each, as_coming=True, as_both=False) if each.key == ROLE else each for each in READY)
    assert decided(begun(items=narrow, coming=RUNNING)).step == Put(ROLE, both=True)
    assert decided(begun(items=narrow, coming=RUNNING, leaving=GONE)).step != Put(ROLE, both=True)


def test_nothing_is_taken_from_the_leaving_provider_before_the_coming_one_is_ready() -> None:
    for coming in (replace(RUNNING, available=1), replace(RUNNING, pods=(), running=0, available=0, problem="ImagePullBackOff")):
        decision = decided(begun(items=READY, coming=coming))
        assert decision.step is None
        assert only_waits(decision)
        assert coming.problem in decision.refusals[0].evidence


def test_a_coming_provider_that_was_scaled_down_is_started_again() -> None:
    assert decided(begun(items=READY, coming=replace(RUNNING, desired=0, pods=(), running=0, available=0))).step == Put(OURS)


def test_whoever_answers_changes_before_who_is_asked_and_both_before_the_leaving_provider_stops() -> None:
    assert decided(begun(items=READY, coming=RUNNING)).step == Put(SERVICE)
    assert decided(begun(items=as_coming(*(set(Part) - {Part.WEBHOOKS})), coming=RUNNING)).step == Put(SERVICE)
    assert decided(begun(items=MOVED, coming=RUNNING)).step == Stop(THEIRS)


def test_webhooks_that_the_leaving_provider_alone_has_go_with_the_others() -> None:
    more = replace(ITEMS[-4], key=Key("ValidatingWebhookConfiguration", "", "theirs"), coming=False, part=Part.WEBHOOKS, as_leaving=True)
    assert decided(begun(items=(*MOVED, replace(more, leaving=True, exists=True)), coming=RUNNING)).step == Delete(more.key)


def test_where_only_the_leader_serves_webhooks_they_move_when_the_other_has_stopped() -> None:
    leader = replace(RUNNING, only_the_leader_serves=True, available=0)
    assert decided(begun(items=READY, coming=leader)).step == Stop(THEIRS)
    assert decided(begun(items=READY, coming=leader, leaving=GONE)).step == Put(SERVICE)


def test_nothing_goes_on_before_the_last_pod_of_the_leaving_provider_is_gone() -> None:
    decision = decided(begun(items=MOVED, coming=RUNNING, leaving=replace(UPSTREAM, desired=0)))
    assert decision.step is None
    assert only_waits(decision)
    assert "upstream-1" in decision.refusals[0].evidence


@pytest.mark.parametrize(
    ("lease", "step"),
    [
        (Lease("upstream-1_x", timedelta(seconds=9.9)), None),
        (Lease("upstream-1_x", timedelta(seconds=10)), FreeLease("upstream-1_x")),
        (Lease(), None),
        (Lease("", timedelta(seconds=60), fresh=True), None),
    ],
)
def test_a_lease_is_freed_when_its_holder_is_gone_and_nobody_renews_it(lease: Lease, step: object) -> None:
    decision = decided(begun(items=MOVED, coming=RUNNING, leaving=GONE, lease=lease))
    assert decision.step == step
    assert step or only_waits(decision)


def test_the_change_is_not_over_before_every_control_plane_is_judged() -> None:
    led = begun(items=MOVED, coming=RUNNING, leaving=GONE, lease=LED)
    assert only_waits(decided(led))
    late = replace(AT_REST, unreported="its generation 3 is not observed")
    assert only_waits(decided(replace(led, control_planes=(AT_REST, late))))
    assert decided(replace(led, control_planes=(AT_REST,))).step == Put(ROLE)
    assert decided(replace(led, control_planes=(late,), accepted=frozenset({late.name}))).step == Put(ROLE)


def test_the_whole_change_in_its_order() -> None:
    assert [str(step) for step in forecast(world(), NOW).steps] == [
        str(Begin()),
        f"write NetworkPolicy {SYSTEM}/quorate-controller-manager",
        "write ClusterRole manager-role with the rights of both",
        f"write {OURS}",
        f"write {SERVICE}",
        "write MutatingWebhookConfiguration mutating",
        f"scale {THEIRS} to 0",
        "write ClusterRole manager-role",
        f"write {OUR_ENTRY}",
        f"delete {THEIRS}",
        f"delete Issuer {SYSTEM}/selfsigned-issuer",
        f"delete {THEIR_ENTRY}",
        str(Finish()),
    ]


def test_the_forecast_says_what_stands_in_its_way() -> None:
    found = forecast(world(core_version="v1.9.0"), NOW)
    assert found.steps == ()
    assert found.refusals


def test_a_coming_provider_that_does_not_come_up_in_time_turns_the_change_back() -> None:
    waiting = begun(items=READY, coming=replace(RUNNING, available=0, problem="ErrImagePull"))
    assert decided(waiting, timedelta(minutes=4, seconds=59)).step is None
    step = decided(waiting, timedelta(minutes=5)).step
    assert isinstance(step, Turn)
    assert step.toward is Side.UPSTREAM
    assert "ErrImagePull" in step.reason


def test_objects_that_others_change_meanwhile_turn_the_change_back() -> None:
    edited = tuple(replace(each, as_leaving=False) if each.key == SERVICE else each for each in READY)
    step = decided(begun(items=edited, coming=RUNNING)).step
    assert isinstance(step, Turn)
    assert str(SERVICE) in step.reason


def test_an_object_that_somebody_writes_back_again_and_again_turns_the_change_back() -> None:
    assert isinstance(decided(begun(items=READY, coming=RUNNING, undone=(SERVICE,))).step, Turn)


def test_on_the_way_back_what_was_saved_is_written_over_what_others_changed() -> None:
    back = Journal(Side.UPSTREAM, NOW, "a reason")
    items = tuple(replace(each, as_leaving=False, as_coming=False) if each.key == SERVICE else each for each in ITEMS)
    view = world(coming=UPSTREAM, leaving=QUORATE, items=items, journal=back, control_planes=None)
    steps = forecast(view, NOW).steps
    assert Put(SERVICE) in steps
    assert not any(isinstance(step, Turn) for step in steps)


def test_nothing_turns_twice() -> None:
    back = Journal(Side.UPSTREAM, NOW, "a reason")
    view = world(coming=replace(UPSTREAM, available=0), leaving=QUORATE, journal=back, control_planes=None)
    decision = decided(view, timedelta(minutes=6))
    assert decision.step is None
    assert not only_waits(decision)
    assert change.IN_TIME in {check.name for check in decision.refusals}


def test_a_change_that_was_turned_anywhere_ends_where_it_began() -> None:
    """After each step of the change: turned back there, everything has upstream's form again, and nothing of quorate's is left."""
    whole = forecast(world(), NOW).steps
    for end in range(1, len(whole)):
        turned = replace(_played(world(), whole[:end]), goal=Side.UPSTREAM)
        steps = forecast(turned, NOW).steps
        assert steps[0] == Turn(Side.UPSTREAM), end
        assert steps[-1] == Finish(), end
        found = _played(turned, steps)
        for item in found.items:
            assert item.exists is (item.coming or item.stays), (end, item)
            assert item.as_coming or not item.exists, (end, item)


def _played(view: View, steps: Iterable[Step]) -> View:
    """The world after these steps, with what comes by itself in between."""
    for step in steps:
        while (decision := decide(view, NOW)).step is None and only_waits(decision):
            view = model._waited(view)
        view = model._after(view, step, NOW)
    return view


def test_a_control_plane_of_each_prospect_says_what_it_is() -> None:
    view = world(control_planes=(ControlPlane(name="a/b", prospect=Prospect.IN_MOTION, evidence="RollingOut"), AT_REST))
    evidence = [check.evidence for check in decided(view).checks if check.name.startswith("a/b")]
    assert evidence == ["in motion: RollingOut"]


def test_a_provider_that_was_never_started_is_no_reason_to_wait() -> None:
    assert replace(QUORATE).stopped
    assert not RUNNING.stopped
    assert not replace(RUNNING, desired=0).stopped
