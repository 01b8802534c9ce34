"""Known bugs of other providers about the lifecycle of a control plane, each as a scene: its birth, rollouts, several failures at once, stale caches, hangs.

The numbers are those of issues of Cluster API (CAPI) and k0smotron (k0s) in which the bug was reported.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

from quorate.core.checks import failed
from quorate.core.machines.checks import components_healthy
from quorate.core.machines.rules.placement import age
from quorate.core.machines.steps import CreateReplica
from quorate.kubeadm.compare import Difference
from quorate.simulation.engine.objects import CONFIGS, MACHINES
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines import liveness
from quorate.simulation.machines.cluster_objects import USER, Wanted
from quorate.simulation.machines.hosts import Host
from quorate.simulation.machines.process import Process
from quorate.simulation.machines.scenarios import Stage
from tests.proof.guard import Function, returns
from tests.proof.guards import is_told, lets_pass, says_nothing, says_yes
from tests.simulation.staging import FIVE, ONE, Scenario, between_decision_and_act


async def a_first_machine_that_fails(stage: Stage) -> None:
    """kubeadm init fails on the very first machine, and a health check fails it."""
    stage.at_next_boot(stage.break_kubeadm(lambda _: True))
    stage.environment.start()
    await stage.until(lambda: stage.kubeadm_failed, "kubeadm init fails", within=120)
    first = stage.names[0]
    stage.mark(first)
    await stage.settled(within=600)
    stage.expect(first not in stage.names, "the first machine is there still")


def only_what_is_initialized(_check: Function) -> Function:
    """What never came up is not replaced."""
    return lambda *_: failed("initialized", "it is not")


async def an_old_one_and_the_new_one_fail_together(stage: Stage) -> None:
    """In the middle of a rollout the newcomer never comes up, and one of the old machines is lost."""
    await stage.up()
    lost = stage.followers(1)[0]
    stage.at_next_boot(stage.break_kubeadm(lambda _: True))
    stage.environment.edit({"version": "v1.34.3"})
    await stage.until(lambda: stage.kubeadm_failed, "kubeadm fails on the newcomer", within=120)
    begun = stage.world.time()
    stage.destroy(lost)
    await stage.passes(60.0)
    for name in (lost, stage.names[-1]):
        stage.mark(name)
    await stage.settled(within=900)
    stage.quorum_since(begun)


async def two_of_five_fail_at_once(stage: Stage) -> None:
    """Two machines of five are lost at the same moment."""
    await stage.up()
    lost = stage.followers(2)
    begun = stage.world.time()
    for name in lost:
        stage.destroy(name)
    await stage.passes(60.0)
    for name in lost:
        stage.mark(name)
    await stage.settled(within=600)
    stage.quorum_since(begun)


def everybody_must_be_well(_check: Function) -> Function:
    """Nobody joins beside one that is ill, whatever it is to make up for."""
    return lambda plane: components_healthy(plane, plane.staying or plane.leaving)


async def a_bad_change_is_put_right_by_another_one(stage: Stage) -> None:
    """A configuration with which no machine comes up is corrected, in the middle of its rollout, by one that differs from both."""
    await stage.up()
    stage.at_next_boot(stage.break_kubeadm(lambda _: True), of=lambda host: _has(stage, host.name, "bad"))
    _configure(stage, "bad")
    await stage.until(lambda: stage.kubeadm_failed, "the bad configuration fails", within=120)
    _configure(stage, "good")
    await stage.settled(within=600)


def the_oldest_goes(_choice: Function) -> Function:
    """Whoever has waited longest for its replacement goes, and nobody else."""
    return lambda plane: (min(plane.outdated or plane.staying, key=age),)


def _configure(stage: Stage, content: str) -> None:
    stage.environment.edit({"kubeadmConfigSpec": {"files": [{"path": "/etc/note", "content": content}]}})


def _has(stage: Stage, machine: str, content: str) -> bool:
    config = stage.world.management.find(CONFIGS, NAMESPACE, machine)
    return config is not None and any(file["content"] == content for file in config.spec.get("files") or ())


def _somebody_has(stage: Stage, content: str) -> bool:
    return any(_has(stage, name, content) for name in stage.names)


async def a_leader_that_was_frozen(stage: Stage) -> None:
    """The provider has seen that there is no machine, and gets to act only when another process, which took its place, has long founded the cluster."""
    late = stage.environment.start()

    def freeze() -> None:
        late.management.lag, late.management.latency = 1e6, (60.0, 60.0)
        stage.world.after(1.0, thaw)
        stage.environment.start()

    def thaw() -> None:  # what it has sent is under way still
        late.management.latency = (0.001, 0.008)

    with between_decision_and_act(CreateReplica, freeze):
        await stage.passes(300.0)
    late.crash()
    await stage.settled(within=300)
    stage.expect(
        len(stage.environment.cluster.founded_by) == 1, f"the cluster was founded {len(stage.environment.cluster.founded_by)} times"
    )


async def a_cache_that_is_behind(stage: Stage) -> None:
    """What the provider has written comes back to it only after forty seconds."""

    def behind(process: Process) -> None:
        process.management.lag = 40.0

    stage.environment.on_start.append(behind)
    stage.environment.start()
    await stage.settled(within=900)


def unguarded(_patch: Function) -> Function:
    """What is about to be made is written down, whatever the control plane has become meanwhile."""

    def patch(_version: str, planned: Any) -> dict[str, Any]:
        guarded = _patch("", planned)
        guarded["metadata"].pop("resourceVersion", None)
        return dict(guarded)

    return patch


async def what_another_release_wrote(stage: Stage) -> None:
    """The objects of the machines have defaults written out that other releases leave away, and the provider is started anew."""
    await stage.up()
    before = stage.names
    for config in stage.world.management.objects(CONFIGS, NAMESPACE):
        kind = "joinConfiguration" if "joinConfiguration" in config.spec else "initConfiguration"
        registration = {kind: {"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}}
        patch = {"spec": {"format": "cloud-config", "users": [], **registration}}
        stage.world.management.merge_patch(CONFIGS, *config.key, patch, who=USER)
    stage.restart()
    await stage.passes(300.0)
    await stage.settled(within=60)
    stage.expect(stage.names == before, "a Machine was replaced for nothing")


def compared_as_written(_comparison: Function) -> Function:
    """What is not written the same is not the same."""

    def differences(desired: Any, current: Any, _version: Any, _fields: Any) -> tuple[Difference, ...]:
        written = {key: value for key, value in current.items() if not key.endswith("Configuration")}
        wanted = {key: value for key, value in desired.items() if not key.endswith("Configuration")}
        return () if written == wanted else (Difference("it is written otherwise", None, None),)

    return differences


async def a_field_that_nobody_here_knows(stage: Stage) -> None:
    """A newer bootstrap provider takes over, which defaults a new field of every KubeadmConfig, and the provider is started anew."""
    await stage.up()
    before = stage.names
    stage.environment.bootstrap.upgrade({"bootTimeoutSeconds": 300})
    stage.restart()
    await stage.passes(90.0)
    await stage.settled(within=60)
    stage.expect(stage.names == before, "a Machine was replaced for a field that nobody asked for")


def every_difference_counts(comparison: Function) -> Function:
    """What differs is a reason, whether it is known or not."""
    return lambda *specs: tuple(replace(difference, known=True) for difference in comparison(*specs))


async def an_etcd_that_must_be_patched_first(stage: Stage) -> None:
    """kubeadm's etcd of v1.33 is an early patch of 3.5. An upgrade to v1.34, whose etcd is 3.6, waits until the owner has brought a later patch to all."""

    def early_patch(host: Host) -> None:
        config = stage.world.management.find(CONFIGS, NAMESPACE, host.name)
        tag = _etcd_tag(config.spec) if config is not None else ""
        host.etcd_patch = tag.removesuffix("-0") or ("3.5.24" if host.version == "v1.33.1" else "")

    stage.environment.infrastructure.boots.append(early_patch)
    await stage.up()
    stage.environment.edit({"version": "v1.34.2"})
    await stage.stays(lambda: "v1.34.2" not in _versions(stage), "etcd 3.6 joined members of 3.5.24", seconds=120)
    stage.expect("runs etcd 3.5.24" in stage.condition("Stalled").get("message", ""), "nobody says what is waited for")
    stage.environment.edit(
        {"version": "v1.33.1", "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"local": {"imageTag": "3.5.26-0"}}}}}
    )
    await stage.settled(within=900)
    stage.environment.edit({"version": "v1.34.2", "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"local": {"imageTag": None}}}}})
    await stage.settled(within=900)
    stage.expect(_versions(stage) == {"v1.34.2"}, "the upgrade is not through")


def _etcd_tag(spec: Any) -> str:
    local = ((spec.get("clusterConfiguration") or {}).get("etcd") or {}).get("local") or {}
    return str(local.get("imageTag") or "")


def _versions(stage: Stage) -> set[str]:
    return {host.version for host in stage.environment.cluster.hosts.values()}


async def a_stream_that_never_ends(stage: Stage) -> None:
    """One member takes every request and never answers; then a health check fails its Machine."""
    await stage.up()
    silent = stage.followers(1)[0]
    stage.environment.cluster.silent.add(silent)
    await stage.passes(60.0)
    stage.mark(silent)
    await stage.until(lambda: stage.machine(silent) is None, "it is replaced", within=300)
    await stage.settled(within=300)


def for_ever(_timeout: Any) -> Any:
    """A deadline that never comes."""
    return 1e9


async def a_rollout_over_three_failure_domains(stage: Stage) -> None:
    """Three machines in three failure domains are replaced."""
    await stage.up()
    stage.environment.edit({"version": "v1.34.3"})
    await stage.settled(within=600)
    domains = Counter(machine.spec["failureDomain"] for machine in stage.environment.machines)
    stage.expect(set(domains.values()) == {1}, f"they stand in {dict(domains)}")


def counts_everybody(_choice: Function) -> Function:
    """The failure domain with the fewest replicas, whether or not these are about to go."""

    def next_failure_domain(plane: Any) -> str:
        everybody = Counter(replica.failure_domain for replica in plane.staying)
        return min(plane.desired.failure_domains, key=lambda domain: (everybody[domain], domain), default="")

    return next_failure_domain


async def every_machine_is_lost(stage: Stage) -> None:
    """The only machine is gone, and somebody has taken away its Machine, finalizers and all."""
    await stage.up()
    name = stage.names[0]
    stage.destroy(name)
    stage.world.management.merge_patch(MACHINES, NAMESPACE, name, {"metadata": {"finalizers": []}}, who=USER)
    stage.environment.delete_machine(name)
    await stage.until(lambda: liveness.explained(stage.environment), "it is said that a human is needed", within=60)
    await stage.stays(lambda: not stage.names, "a new control plane would start empty", seconds=300)


async def a_rollout_over_a_rollout(stage: Stage) -> None:
    """Twice the specification changes before the rollout of the change before is over."""
    await stage.up()
    for content in ("first", "second", "third"):
        _configure(stage, content)
        await stage.until(partial(_somebody_has, stage, content), f"the first machine of the {content} rollout is made", within=120)
    await stage.settled(within=900)


def new_once_and_for_all(comparison: Function) -> Function:
    """What a rollout has made is up to date, whatever has changed since."""

    def outdated(kcp: Any, machine: Any, config: Any, *rest: Any) -> Any:
        made_by_a_rollout = config is not None and "files" in config.spec  # the machines of the beginning have none
        return () if made_by_a_rollout else comparison(kcp, machine, config, *rest)

    return outdated


async def a_failure_on_a_step_of_a_longer_way(stage: Stage) -> None:
    """A managed topology goes up two minor versions, one after the other; a machine fails in the middle of the first step."""
    await stage.up()
    step = "topology.internal.cluster.x-k8s.io/upgrade-step"
    stage.annotate_cluster({step: "v1.35.0"})
    stage.environment.edit_cluster({"topology": {"classRef": {"name": "any"}, "version": "v1.36.0"}})
    stage.environment.edit({"version": "v1.35.0"})
    await stage.until(lambda: len(stage.ring.voters) == 4, "the first new machine has joined", within=300)
    newest = stage.names[-1]
    stage.destroy(newest)
    await stage.passes(15.0)
    stage.mark(newest)
    await stage.settled(within=600)
    stage.annotate_cluster({step: None})
    stage.environment.edit({"version": "v1.36.0"})
    await stage.settled(within=900)


def only_the_end_of_the_way(_question: Function) -> Function:
    """Nothing moves as long as the version is not that of the topology."""

    def pending(kcp: Any, cluster: Any) -> str:
        topology = cluster.spec.topology
        return topology.version if topology is not None and topology.version != kcp.spec.version else ""

    return pending


SCENARIOS = (
    Scenario(
        "B4 CAPI#7496: a first machine that fails is replaced before the control plane has come up",
        a_first_machine_that_fails,
        "what never came up is not replaced",
        {"core.machines.rules.remove:exempt_before_initialization": only_what_is_initialized},
        "liveness",
    ),
    Scenario(
        "B5 CAPI#9398: an old machine and the newcomer of a rollout fail together",
        an_old_one_and_the_new_one_fail_together,
        "a remediation is over only when its replacement exists, whatever keeps that one from joining",
        {
            "core.machines.rules.remediate:_nobody_is_missing": returns(False),
            "core.machines.rules.remediate:_keeps_others_out": returns(False),
        },
        "liveness",
    ),
    Scenario(
        "B6 CAPI#10125: two machines of five fail at once, and both are replaced",
        two_of_five_fail_at_once,
        "nobody joins beside one that is ill",
        {"core.machines.rules.preflight:_well_enough_to_join": everybody_must_be_well},
        "liveness",
        FIVE,
    ),
    Scenario(
        "B7 CAPI#10093: a bad change is put right by another one",
        a_bad_change_is_put_right_by_another_one,
        "the oldest that is outdated goes, and nobody else",
        {"core.machines.rules.placement:candidates": the_oldest_goes},
        "liveness",
    ),
    Scenario(
        "B11 CAPI#3001: one that sees no machine any more does not found the cluster again",
        a_leader_that_was_frozen,
        "neither the record of what is about to be made nor the last look asks what has become of the control plane and its Machines",
        {
            "clusterapi.desired.intent:patch": unguarded,
            "clusterapi.act.permission:same_machines": returns(None),
            "clusterapi.act.permission:still_uninitialized": lets_pass,
        },
        "s3_never_initialized_twice",
    ),
    Scenario(
        "B12 k0s#1534: a cache that is behind makes no duplicates",
        a_cache_that_is_behind,
        "what the caches show is what there is",
        {
            "kubernetes.expectations:Expectations.expect_version": lambda _: lambda *_: None,
            "clusterapi.desired.intent:patch": unguarded,
            "clusterapi.act.permission:same_machines": returns(None),
        },
        "s8_made_for_a_reason",
        ONE,
    ),
    Scenario(
        "B13 CAPI#13017: what another release wrote is no difference",
        what_another_release_wrote,
        "what is not written the same is not the same",
        {"kubeadm.compare:differences": compared_as_written},
        "s8_made_for_a_reason",
    ),
    Scenario(
        "unknown field: a newer bootstrap provider rolls no fleet",
        a_field_that_nobody_here_knows,
        "what differs is a reason, whether it is known or not",
        {"kubeadm.compare:differences": every_difference_counts},
        "s8_made_for_a_reason",
    ),
    Scenario(
        "an etcd that must be patched before its next minor version",
        an_etcd_that_must_be_patched_first,
        "whatever runs, the next minor version of etcd may join",
        {"core.etcd_versions:members_ready": says_yes},
        "scene",
        Wanted(version="v1.33.1"),
    ),
    Scenario(
        "B15 CAPI#13939: a request that is never answered ends by its deadline",
        a_stream_that_never_ends,
        "an answer is waited for as long as it takes",
        {
            "workload.membership:STATUS_TIMEOUT": for_ever,
            "workload.membership:LISTING_TIMEOUT": for_ever,
            "clusterapi.observe.rings:LIMIT": for_ever,
        },
        "liveness",
    ),
    Scenario(
        "B17 CAPI#3396: after a rollout the machines are spread as before",
        a_rollout_over_three_failure_domains,
        "those that are about to go count where the next one is placed",
        {"core.machines.rules.placement:next_failure_domain": counts_everybody},
        "scene",
        Wanted(failure_domains=("a", "b", "c")),
    ),
    Scenario(
        "B18 k0s#992: a cluster whose machines are all lost is not founded again",
        every_machine_is_lost,
        "where there is no machine there was none, and nobody to ask",
        {
            "core.machines.rules.initialize:initialize": is_told(initialized=False),
            "core.machines.rules.guard:wait_for_the_workload_cluster": says_nothing,
        },
        "s3_never_initialized_twice",
        ONE,
    ),
    Scenario(
        "B19 k0s#1489: a rollout over a rollout ends with the newest specification",
        a_rollout_over_a_rollout,
        "what a rollout has made is up to date, whatever has changed since",
        {"clusterapi.observe.machines:outdated": new_once_and_for_all},
        "liveness",
    ),
    Scenario(
        "B23 CAPI#13869: a machine that fails on one step of a longer way is replaced by that step's version",
        a_failure_on_a_step_of_a_longer_way,
        "nothing moves as long as the version is not that of the topology",
        {"clusterapi.observe.specification:topology_pending": only_the_end_of_the_way},
        "liveness",
    ),
)
