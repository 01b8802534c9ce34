"""What random simulations rarely come to: situations on simulated hosts that our rules get through, and that a rule which is wrong on purpose does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import ModuleType

import pytest

from quorate.core.hosts.encryption import IDENTITY, Configuration
from quorate.core.hosts.rules.settings import RENEW_BEFORE
from quorate.core.hosts.state import Cluster, RunOptions
from quorate.core.hosts.steps import (
    ChangeEncryption,
    Reconfigure,
    RemoveMember,
    RenewCertificates,
    StartServices,
    Step,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.core.proposal import NOTHING, Proposal
from quorate.core.versions import Version
from quorate.hosts.act import certificates, encryption, kubelet, reconfigure, restarts, ring, services, upgrade
from quorate.hosts.run.events import Outcome
from quorate.simulation.hosts.acts import Act, Action
from quorate.simulation.hosts.invariants import INVARIANTS
from quorate.simulation.hosts.liveness import unfinished
from tests.simulation.hosts_scenes import (
    NEW,
    OLD,
    THREE,
    Scene,
    a_flag_of_the_api_server,
    certificates_renewed,
    etcd_data_gone,
    init_interrupted,
    stage,
    two_of_three_lost,
    upgrade_3_and_a_worker,
)
from tests.simulation.hosts_wrong import YES, put_wrong

LIVENESS = "liveness"


def start_whatever_is_stopped(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """`start_services` without a look at the data; where they are lost nobody calls a kubelet stopped."""
    stopped = [host for host in cluster.hosts if host.stopped or host.etcd_data_lost]
    return Proposal(StartServices(stopped[0].name, stopped[0].stopped or ("kubelet.service",))) if stopped else NOTHING


async def a_learner_of_nobody_and_a_newcomer(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.operations.site.ring.add_learner("https://192.0.2.1:2380")
    scene.want(*THREE, "cp4")


async def the_cluster_is_on_a_silent_host(scene: Scene) -> None:
    await scene.applied("cp1")
    scene.machine("cp1").reachable = False
    scene.want("cp2", "cp1", "cp3")  # the first is to initialize a cluster


async def the_only_host_left_in_the_manifest_has_lost_its_data(scene: Scene) -> None:
    """Its etcd runs on with what it has in memory, and its ring tolerates its loss; the two others were taken out of the manifest."""
    await scene.applied(*THREE)
    scene.machine("cp1").disk.data = None
    scene.want("cp1")


async def a_host_without_its_data_whose_kubelet_is_stopped(scene: Scene) -> None:
    await etcd_data_gone(scene)
    machine = scene.machine("cp2")
    machine.kubelet_runs, machine.kubelet_version = False, None
    scene.operations.site.settle()


async def a_join_that_somebody_runs_by_hand(scene: Scene) -> None:
    """Which no lock tells of, and whose member takes its time to start."""
    await scene.applied(*THREE)
    scene.want(*THREE, "cp4")
    machine = scene.machine("cp4")
    machine.etcd_fails = True
    await scene.abandoned(Action.ADD, "cp4")
    scene.operations.world.after(20.0, setattr, machine, "etcd_fails", False)
    scene.operations.world.after(20.1, scene.operations.site.settle)
    owners = scene.operations.scripts._owners
    owners.update(dict.fromkeys(owners, ""))


async def quorum_is_lost_beside_a_join_that_was_cut_short(scene: Scene) -> None:
    """The join of a worker: nothing on it runs, and to reset it takes no member from the ring."""
    await two_of_three_lost(scene)
    await asyncio.sleep(10.0)  # nobody who looks now can have seen the quorum
    disk = scene.machine("worker").disk
    disk.containerd, disk.prepared, disk.kubelet, disk.kubeadm = True, True, OLD, OLD
    disk.ca, disk.bootstrap_conf = scene.operations.site.ca, True
    scene.want(*THREE, "worker")


async def a_member_is_silent_beside_a_newcomer(scene: Scene) -> None:
    """The ring bears both, and kubeadm adds nobody while a member is silent."""
    five = (*THREE, "cp4", "cp5")
    await scene.applied(*five)
    machine = scene.machine("cp5")
    machine.etcd_fails, machine.member = True, None
    scene.operations.site.settle()
    scene.want(*five, "cp6")


async def two_minors_at_once(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.want(*THREE, version=Version.parse("v1.36.0"))


async def a_worker_that_runs_pods_was_taken_out(scene: Scene) -> None:
    await scene.applied(*THREE, "worker")
    scene.want(*THREE)


async def a_setting_broke_the_only_api_server_and_was_corrected(scene: Scene) -> None:
    await scene.applied("cp1")
    scene.operations.site.broken_settings.add(2)
    scene.operations.manifest = replace(scene.manifest, settings=2)
    await scene.cut_short(Action.END_API_SERVER, "cp1", seconds=45.0)  # its kubelet has tried the new manifest by then
    scene.operations.manifest = replace(scene.manifest, settings=3)


async def encryption_was_switched_on(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.operations.manifest = replace(scene.manifest, encrypts=True)


async def encryption_was_switched_off(scene: Scene) -> None:
    await encrypted(scene)
    scene.operations.manifest = replace(scene.manifest, encrypts=False)


async def encrypted(scene: Scene) -> None:
    scene.want(*THREE)
    scene.operations.manifest = replace(scene.manifest, encrypts=True)
    await scene.applied(*THREE)


async def kubelets_were_exchanged_and_are_stopped(scene: Scene) -> None:
    """By an upgrade that was cut short before it had restarted the first, and by somebody who went on by hand; what they started runs on."""
    await upgrade_3_and_a_worker(scene)
    await scene.cut_short(Action.KUBELET, "cp1")
    for machine in map(scene.machine, THREE):
        machine.disk.kubelet = NEW
        machine.kubelet_runs, machine.kubelet_version = False, None
    scene.operations.site.settle()


def straight_to_the_end(found: Configuration, target: Configuration, *_: object, **__: object) -> Configuration | None:
    """`_following` without its stages."""
    return None if found == target else target


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation, how ours end, and what is violated as soon as these rules answer otherwise."""

    rule: str  # that is wrong, in words
    scene: Callable[[Scene], Awaitable[None]]
    outcome: Outcome
    breaks: str
    places: Mapping[str, object] = field(hash=False)


SCENARIOS = (
    Scenario(
        "anybody may join at any time",
        a_learner_of_nobody_and_a_newcomer,
        Outcome.CONVERGED,
        "s2_nobody_joins_beside_another",
        {"gates:addition": YES, "rules.join:_members_answer": YES},
    ),
    Scenario(
        "a host that is silent holds no cluster",
        the_cluster_is_on_a_silent_host,
        Outcome.STALLED,
        "s3_founded_once",
        {"rules.found:_nothing_hidden": (), "rules.guard:refuse_what_is_unknown": NOTHING},
    ),
    Scenario(
        "the manifest's hosts need not hold the data",
        the_only_host_left_in_the_manifest_has_lost_its_data,
        Outcome.STALLED,
        "s4_data_stays",
        {"rules.facts:holds_the_data": YES},
    ),
    Scenario(
        "a member without its data may start",
        a_host_without_its_data_whose_kubelet_is_stopped,
        Outcome.CONVERGED,
        "s4_nothing_starts_on_an_empty_folder",
        {"rules.services:start_services": start_whatever_is_stopped},
    ),
    Scenario(
        "a start restarts nobody",
        kubelets_were_exchanged_and_are_stopped,
        Outcome.CONVERGED,
        "s10_a_reading_is_made_for_each_act",
        {"rules.services:restarts_member": False},
    ),
    Scenario(
        "nobody waits for a kubeadm that runs",
        a_join_that_somebody_runs_by_hand,
        Outcome.CONVERGED,
        "s5_one_membership_change_at_a_time",
        {"rules.guard:let_kubeadm_end": NOTHING},
    ),
    Scenario(
        "a lost quorum stops nothing",
        quorum_is_lost_beside_a_join_that_was_cut_short,
        Outcome.STALLED,
        "nothing_happens_without_quorum",
        {"rules.guard:keep_the_quorum": NOTHING, "rules.guard:need_the_api": NOTHING},
    ),
    Scenario(
        "members that are silent keep nobody from joining",
        a_member_is_silent_beside_a_newcomer,
        Outcome.STALLED,
        LIVENESS,
        {"rules.join:_members_answer": YES},
    ),
    Scenario(
        "any version may follow any other",
        two_minors_at_once,
        Outcome.STALLED,
        "version_skew_is_kept",
        {"rules.skew:skew_allows": (YES,)},
    ),
    Scenario(
        "no Node is drained before it goes",
        a_worker_that_runs_pods_was_taken_out,
        Outcome.CONVERGED,
        "pods_leave_first",
        {"rules.facts:takes_evictions": False},
    ),
    Scenario(
        "an initialization that was cut short is not continued",
        init_interrupted,
        Outcome.CONVERGED,
        LIVENESS,
        {"rules.found:continue_the_initialization": NOTHING},
    ),
    Scenario(
        "what is broken is not repaired",
        a_setting_broke_the_only_api_server_and_was_corrected,
        Outcome.CONVERGED,
        LIVENESS,
        {"rules.mend:mend_the_broken": NOTHING},
    ),
    Scenario(
        "an API server goes from one key to the next at once",
        encryption_was_switched_on,
        Outcome.CONVERGED,
        "s18_every_api_server_reads_what_is_stored",
        {"encryption:_following": straight_to_the_end},
    ),
)


async def played(scenario: Scenario, monkeypatch: pytest.MonkeyPatch, places: Mapping[str, object]) -> set[str]:
    """What is violated from the situation on: by any act of `apply`, and by its end."""
    broken: set[str] = set()
    async with stage() as scene:
        site = scene.operations.site

        def judge(act: Act) -> None:
            broken.update(invariant.__name__ for invariant in INVARIANTS if invariant(site, act))

        await scenario.scene(scene)
        put_wrong(monkeypatch, places)
        scene.operations.witnesses.append(judge)
        ended = await scene.run().end()
        assert ended is not None
        if "the Lease" in ended.message:  # of a run before, which could not give it back: the next one outlasts it
            ended = await scene.run().end()
            assert ended is not None
        if ended.outcome is not scenario.outcome or (ended.outcome is Outcome.CONVERGED and unfinished(scene.operations)):
            broken.add(LIVENESS)
    return broken


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.scene.__name__)
async def test_our_rules_get_through(monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
    assert await played(scenario, monkeypatch, {}) == set()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.scene.__name__}; wrong: {scenario.rule}")
async def test_a_wrong_rule_does_not(monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
    assert scenario.breaks in await played(scenario, monkeypatch, scenario.places)


@pytest.mark.parametrize("asks", [True, False])
async def test_the_ring_is_asked_again_as_a_member_is_removed(monkeypatch: pytest.MonkeyPatch, *, asks: bool) -> None:
    """Another member ends right after it was decided: the step's own gate alone keeps the quorum."""
    if not asks:
        monkeypatch.setattr(ring, "removal", lambda *_: YES)
    broken: set[str] = set()
    async with stage() as scene:
        site, other = scene.operations.site, scene.machine("cp2")

        def judge(act: Act) -> None:
            if act.action is Action.BEGIN and isinstance(act.step, RemoveMember):
                other.etcd_fails, other.member = True, None
                site.settle()
            broken.update(invariant.__name__ for invariant in INVARIANTS if invariant(site, act))

        await scene.applied(*THREE)
        scene.want("cp1", "cp2")
        scene.operations.witnesses.append(judge)
        run = scene.run()
        await run.end()
        assert any(isinstance(step, RemoveMember) for step in run.steps)
        assert (scene.machine("cp3").member in site.ring.members) is asks
    assert ("s1_removal_keeps_quorum" in broken) is not asks


@dataclass(frozen=True, slots=True)
class Restart:
    """A situation in which a step of this kind takes a member down, and the module of the step."""

    scene: Callable[[Scene], Awaitable[None]]
    step: type[RenewCertificates | Reconfigure | UpgradeControlPlane | UpgradeKubelet | ChangeEncryption | StartServices]
    module: ModuleType

    def __str__(self) -> str:
        return self.step.__name__


RESTARTS = (
    Restart(certificates_renewed, RenewCertificates, certificates),
    Restart(a_flag_of_the_api_server, Reconfigure, reconfigure),
    Restart(upgrade_3_and_a_worker, UpgradeControlPlane, upgrade),
    Restart(upgrade_3_and_a_worker, UpgradeKubelet, kubelet),
    Restart(encryption_was_switched_on, ChangeEncryption, encryption),
    Restart(kubelets_were_exchanged_and_are_stopped, StartServices, services),
)


async def restarted(restart: Restart, before: Callable[[Scene, str], None]) -> set[str]:
    """What is violated where that happens right before the step."""
    broken: set[str] = set()
    async with stage() as scene:
        site = scene.operations.site

        def judge(act: Act) -> None:
            if act.action is Action.BEGIN and isinstance(act.step, restart.step):
                before(scene, act.step.host)
            broken.update(invariant.__name__ for invariant in INVARIANTS if invariant(site, act))

        await restart.scene(scene)
        scene.operations.witnesses.append(judge)
        run = scene.run()
        await run.end()
        assert any(isinstance(step, restart.step) for step in run.steps)
    return broken


def another_member_ends(scene: Scene, host: str) -> None:
    leader = scene.operations.site.ring.leader  # without it nobody could be asked
    other = next(machine for machine in map(scene.machine, THREE) if machine.name != host and machine.member != leader)
    other.etcd_fails, other.member = True, None
    scene.operations.site.settle()


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("restart", RESTARTS, ids=str)
async def test_the_ring_is_asked_again_as_a_member_is_restarted(monkeypatch: pytest.MonkeyPatch, restart: Restart, *, asks: bool) -> None:
    """Another member ends right after it was decided: the step's own gate alone keeps the quorum."""
    if not asks:
        monkeypatch.setattr(restarts, "restart", lambda *_: YES)
    assert ("s1_restart_keeps_quorum" in await restarted(restart, another_member_ends)) is not asks


@pytest.mark.parametrize("restart", RESTARTS, ids=str)
async def test_a_restart_for_which_nobody_asks_the_ring_is_found_out(monkeypatch: pytest.MonkeyPatch, restart: Restart) -> None:
    async def ask_nobody(*_: object) -> None:
        pass

    monkeypatch.setattr(restart.module, "make_ready", ask_nobody)
    assert "s10_a_reading_is_made_for_each_act" in await restarted(restart, lambda *_: None)


async def test_a_renewal_that_was_cut_short_is_seen_after_an_upgrade_that_somebody_forced_to_the_version_that_runs() -> None:
    """Such an upgrade restarts nothing, so that what runs goes on with the certificates that are about to expire."""
    async with stage() as scene:
        await scene.applied(*THREE)
        operations = scene.operations
        for machine in operations.machines:
            soon = operations.world.now() + RENEW_BEFORE / 2
            machine.disk.certificates = dict.fromkeys(machine.disk.certificates, soon)
            machine.containers = {component: replace(container, valid=soon) for component, container in machine.containers.items()}
        await scene.cut_short(Action.PUT_DOWN, "cp1")
        scene.options = RunOptions(force_upgrade=True)
        await scene.applied(*THREE)
        assert unfinished(operations) == []


async def without_a_look_into_etcd(*_: object) -> None:
    pass


@pytest.mark.parametrize("looks", [True, False])
async def test_etcd_is_asked_before_a_key_goes(monkeypatch: pytest.MonkeyPatch, *, looks: bool) -> None:
    """With a decision that is wrong, that alone keeps it."""
    if not looks:
        monkeypatch.setattr(encryption, "_nothing_needs", without_a_look_into_etcd)
    broken = await played(replace(SCENARIOS[-1], scene=encryption_was_switched_off), monkeypatch, SCENARIOS[-1].places)
    assert ("s18_a_key_goes_only_when_nothing_is_stored_with_it" in broken) is not looks


@pytest.mark.parametrize("moment", [0.0, 0.3, 5.0, 20.0, 60.0])
@pytest.mark.parametrize("wish", ["on", "off", "rotated"])
async def test_an_exchange_of_keys_that_was_cut_short_goes_on(wish: str, moment: float) -> None:
    broken: set[str] = set()
    async with stage() as scene:
        operations = scene.operations
        await (scene.applied(*THREE) if wish == "on" else encrypted(scene))
        before = set(operations.site.objects.stored)
        operations.witnesses.append(lambda act: broken.update(each.__name__ for each in INVARIANTS if each(operations.site, act)))
        operations.manifest, operations.rotates = replace(scene.manifest, encrypts=wish != "off"), wish == "rotated"
        for _ in range(12):
            await scene.cut_short_or_ended(Action.KEYS, seconds=moment)
        there = {key for name in THREE for key in scene.machine(name).disk.keys}
        operations.rotates = wish == "rotated" and there == before  # as long as none has begun
        await scene.applied(*THREE)
        assert unfinished(operations) == []
        assert before.isdisjoint(operations.site.objects.stored)
    assert broken == set()


async def test_an_initialization_goes_on_with_the_keys_that_it_began_with() -> None:
    """Whatever the manifest says by then: what it wants comes in stages."""
    broken: set[str] = set()
    async with stage() as scene:
        operations = scene.operations
        scene.want("cp1")
        operations.manifest = replace(scene.manifest, encrypts=True)
        await scene.cut_short(Action.FOUND, "cp1", seconds=3.0)
        (key,) = operations.site.objects.stored
        assert key.startswith("secretbox:")
        operations.manifest = replace(scene.manifest, encrypts=False)
        operations.witnesses.append(lambda act: broken.update(each.__name__ for each in INVARIANTS if each(operations.site, act)))
        await scene.applied("cp1")
        assert unfinished(operations) == []
    assert broken == set()


async def test_an_initialization_that_began_without_keys_goes_on_without() -> None:
    """What it has stored is plain text: a key that came at once would leave that so, and be recorded as that of every Secret."""
    broken: set[str] = set()
    async with stage() as scene:
        operations = scene.operations
        scene.want("cp1")
        await scene.cut_short(Action.FOUND, "cp1", seconds=3.0)
        assert operations.site.objects.stored == (IDENTITY,)
        operations.manifest = replace(scene.manifest, encrypts=True)
        operations.witnesses.append(lambda act: broken.update(each.__name__ for each in INVARIANTS if each(operations.site, act)))
        await scene.applied("cp1")
        assert unfinished(operations) == []
    assert broken == set()


async def test_an_administrators_certificate_that_has_expired_keeps_nobody_from_renewing_it() -> None:
    """A renewal was cut short before its last certificate, and nobody came back for a month."""
    async with stage() as scene:
        await scene.applied(*THREE)
        disk = scene.machine("cp2").disk
        disk.certificates = {**disk.certificates, "admin.conf": scene.operations.world.now()}
        await scene.applied(*THREE)
        assert disk.certificates_expire is not None
        assert disk.certificates_expire - scene.operations.world.now() > RENEW_BEFORE
        assert unfinished(scene.operations) == []


async def test_an_initialization_that_ended_leaves_none_of_its_marks_and_one_that_was_cut_short_both() -> None:
    """Else a control plane that misses a file later would pass for one that is not initialized yet."""
    async with stage() as scene:
        await init_interrupted(scene)
        disk = scene.machine("cp1").disk
        assert (disk.initializing, disk.super_admin_conf) == (True, True)
        await scene.applied(*THREE)
        assert [(disk.initializing, disk.super_admin_conf) for disk in (scene.machine(name).disk for name in THREE)] == [(False, False)] * 3
