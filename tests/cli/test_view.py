"""The display as a pure fold, and what is derived from one look after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.machines.events import (
    LINES,
    ControlPlaneGone,
    ControlPlaneSeen,
    Event,
    MachineGone,
    MachineSeen,
    Sight,
    StepSeen,
    changes,
)
from quorate.cli.machines.view import View, fold, footer, line, rows, title
from quorate.core.machines.steps import EnsureCertificates, WriteKubeconfig

MakeMachine = Callable[..., MachineSeen]
MakeControlPlane = Callable[..., ControlPlaneSeen]


def folded(events: Sequence[Event]) -> View:
    return reduce(fold, events, View())


def test_machines_are_shown_oldest_first(seen: MakeMachine, noon: datetime) -> None:
    view = folded([seen("b", created=noon + timedelta(seconds=5)), seen("z"), seen("a")])
    assert [row.cells[0] for row in rows(view, noon)] == ["a", "z", "b"]


def test_a_row_says_node_role_health_and_what_is_waited_for(seen: MakeMachine, noon: datetime) -> None:
    view = folded([seen(node="", role="", health="unknown", waits_for="bootstrap data")])
    (row,) = rows(view, noon + timedelta(seconds=7))
    assert row.cells == ("cp-1", "v1.34.4", "-", "-", "unknown", "bootstrap data", "7s")
    assert row.waiting


def test_the_clock_of_a_machine_stops_when_it_is_ready(seen: MakeMachine, noon: datetime) -> None:
    view = folded([seen(waits_for="infrastructure"), seen(after=9, waits_for="")])
    (row,) = rows(view, noon + timedelta(hours=1))
    assert row.cells[-2:] == ("ready", "9s")


def test_a_ready_machine_that_falls_ill_starts_a_new_wait(seen: MakeMachine, noon: datetime) -> None:
    view = folded([seen(), seen(after=60, waits_for="EtcdMemberHealthy: no answer", health="bad")])
    (row,) = rows(view, noon + timedelta(seconds=64))
    assert row.cells[-1] == "4s"


def test_a_deletion_is_named_as_one(seen: MakeMachine, noon: datetime) -> None:
    (row,) = rows(folded([seen(deleting=True, waits_for="drain and volumes")]), noon)
    assert "deletion: drain and volumes" in row.cells


def test_why_a_machine_goes_or_came_is_said_beside_what_it_waits_for(seen: MakeMachine, noon: datetime) -> None:
    leaving = seen("a", deleting=True, waits_for="drain and volumes", fate="replaced because it is outdated")
    surplus = seen("b", fate="surplus, to be deleted")
    assert [row.cells[-2] for row in rows(folded([leaving, surplus]), noon)] == [
        "deletion: drain and volumes; replaced because it is outdated",
        "ready; surplus, to be deleted",
    ]
    assert line(leaving, View()).endswith("a: etcd voter, deletion waits for drain and volumes; replaced because it is outdated")


def test_a_machine_that_is_gone_leaves_the_display(seen: MakeMachine, noon: datetime) -> None:
    assert rows(folded([seen("a"), seen("b"), MachineGone(noon, "a"), MachineGone(noon, "never there")]), noon)[0].cells[0] == "b"


def test_the_title_counts_and_the_footer_says_what_comes_next(summary: MakeControlPlane) -> None:
    view = folded([summary(ready=1, available=1, etcd="1 voter, tolerates 0", next="create a machine")])
    assert title(view) == "demo v1.34.4: 1 of 3 ready, 1 available, etcd 1 voter, tolerates 0"
    assert footer(view) == "next: create a machine"
    assert footer(folded([summary()])) == "nothing left to do"


def test_a_control_plane_that_is_gone_takes_its_machines_along(seen: MakeMachine, summary: MakeControlPlane, noon: datetime) -> None:
    view = folded([summary(), seen(), ControlPlaneGone(noon, "demo")])
    assert (rows(view, noon), title(view), footer(view)) == ([], "the control plane is gone", "")


def test_a_look_that_shows_the_same_makes_no_event(seen: MakeMachine, summary: MakeControlPlane, noon: datetime) -> None:
    step = StepSeen(noon, "create a machine", "scale up")
    before = Sight(summary(), (seen(),), step)
    after = Sight(summary(after=5), (seen(after=5),), StepSeen(noon + timedelta(seconds=5), "create a machine", "scale up"))
    assert changes(before, after, noon) == []


def test_a_step_that_goes_on_is_told_once(summary: MakeControlPlane, noon: datetime) -> None:
    """Whoever looks while it is taken sees fewer and fewer CAs missing, and would be told of as many steps."""

    def look(*missing: str) -> Sight:
        wanted = EnsureCertificates(missing)
        return Sight(summary(), (), StepSeen(noon, str(wanted), "generate CAs"), wanted)

    before = look("ca", "sa", "proxy", "etcd")
    assert changes(before, look("ca", "proxy"), noon) == changes(look("ca", "proxy"), look("proxy"), noon) == []
    assert changes(None, before, noon)[0] == changes(look("proxy"), before, noon)[0] == before.step, "that is another one"
    last = Sight(summary(), (), StepSeen(noon, "write the kubeconfig", "write the kubeconfig"), WriteKubeconfig(rotate=False))
    assert changes(look("proxy"), last, noon) == [last.step]


def test_the_end_of_a_control_plane_is_told_once(seen: MakeMachine, summary: MakeControlPlane, noon: datetime) -> None:
    before = Sight(summary(), (seen("a"),), None)
    assert changes(before, None, noon) == [MachineGone(noon, "a"), ControlPlaneGone(noon, "demo")]
    assert changes(None, None, noon) == []


NAMES = st.sets(st.sampled_from("abcdef"))


@given(looks=st.lists(st.tuples(NAMES, st.sampled_from(["", "infrastructure", "kubeadm join"])), min_size=1))
def test_the_changes_between_looks_add_up_to_the_last_look(looks: list[tuple[set[str], str]]) -> None:
    sights = [_sight(names, waits_for) for names, waits_for in looks]
    events = [event for before, after in zip([None, *sights], sights, strict=False) for event in changes(before, after, NOON)]
    at_once = folded(changes(None, sights[-1], NOON))
    assert [machine.seen for machine in folded(events).machines] == [machine.seen for machine in at_once.machines]
    assert folded(events).control_plane == at_once.control_plane


NOON = datetime.fromisoformat("2026-01-01T12:00:00+00:00")


def _sight(names: set[str], waits_for: str) -> Sight:
    machines = tuple(
        MachineSeen(NOON, name, "v1.34.4", NOON, "", "", "unknown", waits_for, deleting=False, fate="") for name in sorted(names)
    )
    count = len(names)
    return Sight(ControlPlaneSeen(NOON, "demo", "v1.34.4", 3, count, count, count, count, "unknown", "", "progressing"), machines, None)


def test_a_recording_reads_back_as_it_was_told(seen: MakeMachine, summary: MakeControlPlane, noon: datetime) -> None:
    told: list[Event] = [summary(), seen(after=1), StepSeen(noon, "x", "y"), MachineGone(noon, "a"), ControlPlaneGone(noon, "demo")]
    read = LINES.decode(LINES.encode(event) for event in told)
    assert read == told
    assert [event.at for event in read] == [event.at for event in told]


@pytest.mark.parametrize("text", ["nonsense", '{"event": "Unheard"}', '{"event": "MachineGone"}', "[]"])
def test_a_line_that_is_no_event_is_refused_by_number(text: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        LINES.decode(["", text, LINES.encode(ControlPlaneGone(NOON, "demo"))])


def test_plain_lines_tell_each_change_with_its_time(seen: MakeMachine, noon: datetime) -> None:
    view = folded([StepSeen(noon, "create the first machine", "initialize")])
    assert line(seen(after=2.5, waits_for="bootstrap data", node="", role=""), view) == "   2.5s  cp-1: waits for bootstrap data"
    assert line(seen(after=9, role="leader"), view) == "   9.0s  cp-1: etcd leader, ready"
    assert line(MachineGone(noon, "cp-1"), view) == "   0.0s  cp-1 is gone"


def test_a_plain_line_is_left_out_where_a_reader_would_see_nothing_new(summary: MakeControlPlane) -> None:
    view = folded([summary(next="create a machine")])
    assert line(summary(after=1, next="waits until nobody leaves"), view) == ""
    assert "2 of 3 ready" in line(summary(after=1, ready=2), view)
