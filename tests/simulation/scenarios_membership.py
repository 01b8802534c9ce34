"""Known bugs of other providers about etcd's members, each as a scene: those that leak, that never started, that are removed too late or too early.

The numbers are those of issues of Cluster API (CAPI) and kubeadm in which the bug was reported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quorate.clusterapi.act.etcd_membership import read_afresh
from quorate.clusterapi.act.refusal import Refused
from quorate.core.checks import failed, unknown
from quorate.core.health import Absent, Finding, Health
from quorate.core.machines.steps import RemoveMember, RemoveOrphan
from quorate.core.proposal import NOTHING
from quorate.simulation.engine.link import Fate
from quorate.simulation.machines.hosts import Host, State
from quorate.simulation.machines.liveness import explained
from quorate.simulation.machines.operator import obey
from quorate.simulation.machines.scenarios import Stage
from quorate.workload.static_pods import Component
from tests.proof.guard import Function, returns
from tests.proof.guards import returns_the_view, says_nothing
from tests.simulation.staging import FIVE, ONE, Scenario, between_decision_and_act


async def an_orphan_while_one_is_missing(stage: Stage) -> None:
    """A member of nobody, which never starts, is in the ring when a user deletes a Machine: its replacement cannot join before the orphan is gone."""
    await stage.up()
    stage.ring.add_learner("https://10.99.99.99:2380")
    stage.environment.delete_machine(stage.names[0])
    await stage.settled(within=400)


def orphans_come_last(rule: Function) -> Function:
    """Members are looked at only where as many Machines as desired are there."""
    return lambda plane, now: rule(plane, now) if len(plane.replicas) == plane.desired.replicas else NOTHING


async def a_crash_right_after_a_removal(stage: Stage) -> None:
    """The provider dies when the member of a deleted Machine is gone and its hook is not released yet."""
    await stage.up()
    stage.process.workload.fate = lambda what: Fate.FATAL if what == "remove member" else Fate.ANSWERED
    stage.environment.delete_machine(stage.names[0])
    await stage.until(lambda: not stage.process.alive, "the member is removed")
    stage.environment.start()
    await stage.settled(within=300)


def a_missing_member_is_unknown(check: Function) -> Function:
    """Without a member there is nothing to remove, and so nothing to go on with."""
    return lambda plane, replica: unknown("member", "none") if isinstance(replica.member, Absent) else check(plane, replica)


async def _the_newest_fails(stage: Stage) -> None:
    """kubeadm has failed on the newest host, and a health check fails its Machine some time later."""
    await stage.until(lambda: stage.kubeadm_failed, "kubeadm fails on the new machine", within=300)
    newest = stage.names[-1]
    await stage.passes(30.0)
    stage.mark(newest)


async def a_third_that_never_joins(stage: Stage) -> None:
    """kubeadm fails on the third machine before it has done anything; a health check finds that out."""
    await stage.up()
    stage.at_next_boot(stage.break_kubeadm(lambda _: True), of=lambda _: len(stage.names) == 3)
    stage.environment.edit({"replicas": 3})
    await _the_newest_fails(stage)
    await stage.settled(within=900)


def nobody_may_be_without_a_node(check: Function) -> Function:
    """The number of members must be that of Machines, the one that failed included."""
    return lambda plane, replica: failed("members", "one is missing") if replica.node is None else check(plane, replica)


async def a_member_that_never_starts(stage: Stage) -> None:
    """kubeadm dies right after it has added the member of its host; the Machine is replaced, and its member must not stay."""
    await stage.up()
    stage.at_next_boot(stage.break_kubeadm(lambda host: host.member is not None))
    stage.environment.edit({"replicas": 3})
    await _the_newest_fails(stage)
    await stage.settled(within=400)


async def a_learner_that_is_never_promoted(stage: Stage) -> None:
    """kubeadm dies when the etcd of its host has started, and before it lets it vote."""
    await stage.up()
    ring = stage.ring
    stage.at_next_boot(stage.break_kubeadm(lambda host: host.member is not None and bool(ring.members[host.member].name)))
    stage.environment.edit({"replicas": 3})
    await _the_newest_fails(stage)
    await stage.settled(within=400)


async def a_newcomer_that_votes_and_was_reported_failed(stage: Stage) -> None:
    """kubeadm promotes its member, is told that this failed, and gives up: a voter without a Node, which a health check finds."""
    await stage.up()
    stage.at_next_boot(stage.break_kubeadm(lambda host: host.member in stage.ring.voters))
    stage.environment.edit({"version": "v1.34.3"})
    await _the_newest_fails(stage)
    await stage.settled(within=900)


def without_a_node_without_a_member(match: Function) -> Function:
    """The member of a Machine is looked for by its Node; where there is none, there is nothing to look for."""

    def matched(reading: Any, machines: Any, *others: Any) -> Any:
        found = match(reading, machines, *others)
        of = {name: found.of[name] if node is not None else Absent() for name, node in machines.items()}
        return type(found)(of, ())

    return matched


async def one_more_fails_between_the_check_and_the_removal(stage: Stage) -> None:
    """Of five members one is dead and one is about to be removed; at the very last moment another one goes down."""
    await stage.up()
    leaving, dead, late = stage.followers(3)
    stage.destroy(dead)
    await stage.until(
        lambda: stage.condition("EtcdMemberHealthy", dead).get("status") != "True", "its member is known to be dead", within=120
    )
    begun = stage.world.time()
    with between_decision_and_act(RemoveMember, lambda: stage.power(late, on=False)):
        stage.environment.delete_machine(leaving)
        await stage.until(lambda: not stage.host(late).alive, "the removal is decided on", within=300)
        await stage.stays(lambda: stage.machine(leaving), "it was let go", seconds=120)
    stage.quorum_since(begun)
    stage.power(late, on=True)
    stage.mark(dead)
    await stage.settled()
    stage.quorum_since(begun)


async def a_learner_is_promoted_between_the_check_and_the_removal(stage: Stage) -> None:
    """A learner of nobody may be removed at any time, so it seems; but at the last moment it votes, and the ring has come to need it."""
    await stage.up()
    lost, ill = stage.followers(2)
    stranger = Host("stranger", "dev:///stranger", "10.99.99.99", "v1.34.2", components={Component.ETCD: State.RUNNING})
    stage.environment.cluster.hosts[stranger.name] = stranger
    stranger.member = stage.ring.add_learner(stranger.peer_url).id
    stage.ring.start(stranger.member, stranger.name)
    begun = stage.world.time()

    def the_ring_moves_on() -> None:
        stage.ring.promote(stage.member("stranger"))
        stage.ring.remove(stage.member(lost))
        stage.power(ill, on=False)

    with between_decision_and_act(RemoveOrphan, the_ring_moves_on):
        await stage.until(lambda: not stage.host(ill).alive, "the removal is decided on", within=600)
        await stage.stays(lambda: stranger.member in stage.ring.members, "the stranger was removed", seconds=120)
    stage.quorum_since(begun)
    stage.power(ill, on=True)
    await stage.until(lambda: stranger.member not in stage.ring.members, "the stranger is removed once the ring can do without it")
    del stage.environment.cluster.hosts[stranger.name]
    stage.mark(lost)
    await stage.settled()
    stage.quorum_since(begun)


async def a_leader_that_cannot_be_asked_to_step_down(stage: Stage) -> None:
    """Nobody is let through to the member that leads; a health check fails its Machine."""
    await stage.up()
    leader = stage.leader
    stage.environment.cluster.cut_off.add(leader)
    stage.mark(leader)
    await stage.until(lambda: stage.machine(leader) is None, "the Machine of the leader is replaced", within=900)
    await stage.settled(within=900)


def leadership_must_move(passing: Function) -> Function:
    """Nobody goes as long as its member leads."""

    async def insisting(clients: Any, observation: Any, view: Any, replica: str) -> None:
        await passing(clients, observation, view, replica)
        leader = view.ring.leader
        if leader is not None and leader == view.replica(replica).member and not await _moved(clients, observation, leader):
            raise Refused("it leads")

    return insisting


async def _moved(clients: Any, observation: Any, leader: int) -> bool:
    ring: Any = (await read_afresh(clients, observation)).ring
    return bool(ring.leader != leader)


async def an_alarm_on_the_old_one_of_two(stage: Stage) -> None:
    """The only machine is being replaced; when its replacement votes, the disk of the old one is full."""
    await stage.up()
    old = stage.names[0]
    stage.environment.edit({"version": "v1.34.3"})
    await stage.until(lambda: len(stage.ring.voters) == 2, "the replacement votes", within=300)
    stage.ring.alarms.add((stage.member(old), "NOSPACE"))
    await stage.settled(within=300)


def an_alarmed_member_takes_no_part(_predicate: Function) -> Function:
    """Whoever has an alarm does not count where a change is to be confirmed."""
    return lambda ring: ring.now


async def an_alarm_on_one_of_three(stage: Stage) -> None:
    """The disk of one member is full; the health check sees it, and its Machine is replaced. etcd keeps the alarm, until somebody disarms it."""
    await stage.up()
    full = stage.names[1]
    stage.ring.alarms.add((stage.member(full), "NOSPACE"))
    stage.let_health_check_judge()
    await stage.until(lambda: stage.machine(full) is None, "the Machine with the full disk is replaced", within=600)
    await stage.settled(within=900)
    await stage.until(
        lambda: "which is gone" in stage.condition("EtcdClusterHealthy")["message"], "the alarm that stays is told", within=300
    )
    stage.ring.alarms.clear()
    await stage.until(lambda: stage.condition("EtcdClusterHealthy")["status"] == "True", "the alarm is told no more", within=300)


async def from_one_to_three_and_through_a_surge(stage: Stage) -> None:
    """Two members are on the way from one to three, four in the middle of every rollout; an even number asked for is refused in plain words."""
    await stage.up()
    stage.environment.edit({"replicas": 3})
    await stage.settled(within=600)
    stage.environment.edit({"replicas": 4})
    await stage.until(lambda: stage.condition("Stalled").get("status") == "True", "it is said that four will not do", within=60)
    stage.environment.edit({"replicas": 3, "version": "v1.34.3"})
    await stage.settled(within=900)


def members_are_odd_in_number(check: Function) -> Function:
    """An even number of voters is no number to go to."""
    return lambda ring: failed("odd", "it would be even") if len(getattr(ring, "members", ())) % 2 else check(ring)


async def a_voter_without_a_node_beside_one_that_is_lost(stage: Stage) -> None:
    """kubeadm ends on a new host right after its member votes: it has no Node, so that nobody can ask it. Then another host is lost for good. Nothing can be
    done, since as far as anybody can tell one of three is well; somebody on the hosts can tell more, and does what the condition says.
    """
    await stage.up()
    deleted, lost = stage.followers(2)
    stage.at_next_boot(stage.break_kubeadm(lambda host: host.member in stage.ring.voters))
    stage.environment.delete_machine(deleted)
    await stage.until(lambda: stage.kubeadm_failed, "kubeadm fails on the new machine", within=300)
    begun = stage.world.time()
    stage.destroy(lost)
    await stage.passes(30.0)
    stage.mark(lost)
    stage.mark(stage.names[-1])
    await stage.until(lambda: explained(stage.environment), "it is said that somebody has to act", within=900)
    stage.expect(len(stage.ring.voters) == 3, "a member was removed beside one that may be lost")
    stage.expect(obey(stage.environment), "nobody is told what to do")
    await stage.settled(within=1800)
    stage.quorum_since(begun)


def says_no_way_out(gate: Function) -> Function:
    """The reason is told, and what to do about it is not."""
    return lambda *asked: replace(gate(*asked), remedy="")


def reborn_empty(stage: Stage, name: str, address: str) -> None:
    """A host comes back under its name with an empty disk, and kubeadm joins again."""
    old = stage.host(name)
    stage.destroy(name)
    stage.environment.cluster.hosts[name] = Host(name, old.provider_id, address, old.version, registered=True)
    stage.environment.kubelets.poke(stage.host(name))
    stage.environment.infrastructure.boot(stage.host(name), init=False)


async def a_host_reborn_empty_under_its_old_name(stage: Stage) -> None:
    """A host comes back under its name and address with an empty disk, while a user deletes another Machine."""
    await stage.up()
    reborn, deleted = stage.followers(2)
    reborn_empty(stage, reborn, stage.host(reborn).address)
    begun = stage.world.time()
    await stage.passes(60.0)
    stage.environment.delete_machine(deleted)
    await stage.stays(lambda: stage.machine(deleted), "the ring could not do without it", seconds=120)
    stage.mark(reborn)
    await stage.settled()
    stage.quorum_since(begun)
    stage.expect(len(stage.environment.cluster.founded_by) == 1, "the cluster was founded a second time")


async def a_host_reborn_empty_elsewhere_and_lost_again(stage: Stage) -> None:
    """A host comes back empty under its name at another address, votes, and is lost for good: two members have its name, and neither answers."""
    await stage.up()
    lost = stage.followers(1)[0]
    reborn_empty(stage, lost, stage.environment.cluster.new_address())
    await stage.until(lambda: len(stage.ring.voters) == 6, "it votes once more", within=60)
    await stage.until(lambda: stage.host(lost).joined, "it has joined once more", within=60)
    begun = stage.world.time()
    stage.destroy(lost)
    await stage.stays(lambda: len(stage.ring.voters) == 6, "a member was removed though its Machine stays", seconds=300)
    stage.mark(lost)
    await stage.settled(within=900)
    stage.quorum_since(begun)


def whoever_has_a_node_has_its_own_member(match: Function) -> Function:
    """What fits a Machine with a Node is that Machine's, and nobody else's to remove, however many members that are."""

    def matched(reading: Any, machines: Any, *others: Any) -> Any:
        found = match(reading, machines, *others)
        contested = {member: names for member, names in found.contested.items() if all(machines[name] is None for name in names)}
        orphans = tuple(member for member in found.orphans if member.id not in found.contested or member.id in contested)
        return type(found)(found.of, orphans, contested)

    return matched


def who_is_listed_is_well(reading: Function) -> Function:
    """A member is healthy as long as the others list it."""

    async def read(*arguments: Any) -> Any:
        found = await reading(*arguments)
        if not hasattr(found, "ring"):
            return found
        members = tuple(replace(member, health=Health.GOOD) for member in found.ring.members)
        return replace(found, ring=replace(found.ring, members=members))

    return read


SCENARIOS = (
    Scenario(
        "B1 CAPI#3860: an orphan is removed though something else waits to be done",
        an_orphan_while_one_is_missing,
        "orphans are looked at only where as many Machines as desired are there",
        {"core.machines.rules.orphans:remove_orphans": orphans_come_last},
        "liveness",
    ),
    Scenario(
        "B2 CAPI#4365: a crash between the removal of a member and the release of its Machine",
        a_crash_right_after_a_removal,
        "a Machine goes only together with its member",
        {"core.machines.checks:quorum_survives_removal": a_missing_member_is_unknown},
        "liveness",
    ),
    Scenario(
        "B3 CAPI#4472: a third machine that never joins is replaced",
        a_third_that_never_joins,
        "nothing is replaced while the numbers of members and Machines differ",
        {"core.machines.rules.loss:_nobody_coming_up": nobody_may_be_without_a_node},
        "liveness",
        ONE,
    ),
    Scenario(
        "B8 CAPI#13221: a member that never started does not outlive its Machine",
        a_member_that_never_starts,
        "members of nobody are left alone",
        {"core.machines.rules.orphans:remove_orphans": says_nothing},
        "liveness",
        ONE,
    ),
    Scenario(
        "B8 CAPI#13667: a learner that is never promoted leaves with its Machine",
        a_learner_that_is_never_promoted,
        "a Machine without a Node has no member",
        {"clusterapi.observe.ring:match": without_a_node_without_a_member},
        "liveness",
        ONE,
    ),
    Scenario(
        "a voter without a Node beside one that is lost: whoever does what is said, and no more, is rid of it",
        a_voter_without_a_node_beside_one_that_is_lost,
        "a refusal of the gate says no way out",
        {"core.quorum:removal_keeps_quorum": says_no_way_out, "core.quorum:quorum_survives_addition": says_no_way_out},
        "liveness",
    ),
    Scenario(
        "B9 CAPI#13680: one more fails between the check and the removal",
        one_more_fails_between_the_check_and_the_removal,
        "what was decided is done without another look",
        {"clusterapi.act.etcd_membership:read_afresh": returns_the_view},
        "s1_removal_keeps_quorum",
        FIVE,
    ),
    Scenario(
        "B10 CAPI#13680: a learner is promoted between the check and the removal",
        a_learner_is_promoted_between_the_check_and_the_removal,
        "what was decided is done without another look",
        {"clusterapi.act.etcd_membership:read_afresh": returns_the_view},
        "s1_removal_keeps_quorum",
    ),
    Scenario(
        "B14 CAPI#8465: a leader that cannot be asked to step down is replaced all the same",
        a_leader_that_cannot_be_asked_to_step_down,
        "nobody goes as long as its member leads",
        {"clusterapi.act.etcd_membership:pass_leadership_on": leadership_must_move},
        "liveness",
    ),
    Scenario(
        "B16 CAPI#4057: the way from one to three leads through two, and that of every rollout through four",
        from_one_to_three_and_through_a_surge,
        "an even number of members is none to go to",
        {"core.quorum:quorum_survives_addition": members_are_odd_in_number},
        "liveness",
        ONE,
    ),
    Scenario(
        "B18 k0s#992: a host reborn empty under its old name is not taken for the old one",
        a_host_reborn_empty_under_its_old_name,
        "a member is healthy as long as the others list it",
        {"workload.membership:_asked_once": who_is_listed_is_well},
        "s1_removal_keeps_quorum",
    ),
    Scenario(
        "a host reborn empty elsewhere and lost again is replaced, with both members of its name",
        a_host_reborn_empty_elsewhere_and_lost_again,
        "members that fit a Machine with a Node are its own to remove, one that is known",
        {"clusterapi.observe.ring:match": whoever_has_a_node_has_its_own_member},
        "liveness",
        FIVE,
    ),
    Scenario(
        "B20 kubeadm#3317: a newcomer that votes though its promotion was reported failed",
        a_newcomer_that_votes_and_was_reported_failed,
        "a Machine without a Node has no member",
        {"clusterapi.observe.ring:match": without_a_node_without_a_member},
        "s1_released_without_a_member",
    ),
    Scenario(
        "B24 CAPI#13798: a full disk does not keep its own member from leaving",
        an_alarm_on_the_old_one_of_two,
        "a member with an alarm does not count where a change is to be confirmed",
        {"core.ring:Ring.commits": an_alarmed_member_takes_no_part},
        "liveness",
        ONE,
    ),
    Scenario(
        "a machine whose disk is full is replaced",
        an_alarm_on_one_of_three,
        "an alarm is no illness",
        {"clusterapi.observe.ring:_judged": returns(Finding(Health.GOOD, "Healthy"))},
        "liveness",
    ),
)
