"""Whole change-overs against an API server in memory: there, back, killed after every write, and in bad company."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from quorate.clusterapi.takeover import installation
from quorate.clusterapi.takeover.journal import Record
from quorate.clusterapi.takeover.session import Ended
from quorate.core.takeover.rules import change, preflight
from quorate.core.takeover.state import ControlPlane, Prospect, Side
from quorate.simulation.engine.apiserver import Change
from tests.clusterapi.takeover.manifests import INJECTED, OUR_DEPLOYMENT, OURS, PREFIX, SYSTEM, THEIR_DEPLOYMENT, THEIRS, given, upstream
from tests.clusterapi.takeover.stage import SERVED, Stage, with_upstream


async def test_quorate_takes_over_and_hands_back_what_it_found() -> None:
    stage = await with_upstream()
    before = stage.objects()
    assert stage.leader == THEIR_DEPLOYMENT

    ended = await stage.command(Side.QUORATE, given())
    assert ended is not None
    assert ended.over
    assert stage.leader == OUR_DEPLOYMENT
    taken_over(stage)

    back = await stage.command(Side.UPSTREAM)
    assert back is not None
    assert back.over
    assert stage.leader == THEIR_DEPLOYMENT
    assert stage.objects() == before
    assert stage.find("Secret", "quorate-takeover") is None


def taken_over(stage: Stage) -> None:
    """Nothing of upstream's is left that could be found by its label or by clusterctl, and everything of quorate's is there."""
    assert not [
        name for name, item in stage.objects().items() if item["metadata"].get("labels", {}).get("cluster.x-k8s.io/provider") == THEIRS
    ]
    for key, said in given().objects.items():
        found = stage.find(key.kind, key.name, key.namespace)
        assert found is not None, key
        assert found["metadata"]["labels"].items() >= said["metadata"]["labels"].items(), key
        assert all(found[name] == said[name] for name in said if name not in ("metadata", "apiVersion")), key
        assert not INJECTED.keys() & found["metadata"].get("annotations", {}).keys(), key


async def test_the_same_command_again_has_nothing_to_do() -> None:
    stage = await with_upstream()
    await stage.command(Side.QUORATE, given())
    version = stage.server.version
    again = await stage.command(Side.QUORATE, given())
    assert again is not None
    assert again.over
    written = [each for kind in SERVED.values() for each in stage.server.since(kind, version) if each.who == "quorate"]
    assert not written


async def test_nobody_leads_for_no_longer_than_half_a_minute() -> None:
    stage = await with_upstream()
    stage.gaps.clear()
    await stage.command(Side.QUORATE, given())
    assert 0.0 < max(stage.gaps) < 30.0, stage.gaps


async def test_webhooks_are_always_answered() -> None:
    """At every moment the Service selects the Pods of a provider that has some which are ready."""
    stage = await with_upstream()
    unanswered: list[str] = []

    def look(doing: str) -> None:
        service = stage.find("Service", f"{PREFIX}-webhook-service")
        assert service is not None
        label = service["spec"]["selector"]["cluster.x-k8s.io/provider"]
        found = stage.find("Deployment", THEIR_DEPLOYMENT if label == THEIRS else OUR_DEPLOYMENT)
        if found is None or found["spec"]["replicas"] == 0 or not found["status"]["availableReplicas"]:
            unanswered.append(f"{doing}: {label}")

    await stage.command(Side.QUORATE, given(), between=look)
    await stage.command(Side.UPSTREAM, between=look)
    assert not unanswered


async def test_nobody_is_without_rights_at_any_time() -> None:
    """The rules of an aggregated role are written by a controller, which takes its time."""
    stage = await with_upstream()
    without: list[str] = []

    def look(written: Change) -> None:
        rules = written.after.obj.get("rules") if written.after else None
        if written.kind is SERVED["ClusterRole"] and not rules:
            without.append(f"{written.who}: {written.object.name}")

    stage.server.subscribe(look)
    for goal, components in ((Side.QUORATE, given()), (Side.UPSTREAM, None)):
        ended = await stage.command(goal, components)
        assert ended is not None
        assert ended.over
        assert not returned(ended)
    assert not without


async def writes_of(goal: Side) -> int:
    """How many writes a whole change takes."""
    count = 0

    def counted(_doing: str) -> None:
        nonlocal count
        count += 1

    stage = await with_upstream()
    await stage.command(Side.QUORATE, given(), between=counted if goal is Side.QUORATE else lambda _: None)
    if goal is Side.UPSTREAM:
        await stage.command(Side.UPSTREAM, between=counted)
    return count


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("goal", [Side.QUORATE, Side.UPSTREAM])
async def test_a_takeover_that_is_killed_after_any_write_is_finished_or_taken_back(goal: Side) -> None:
    last = await writes_of(Side.QUORATE)
    assert last >= 20
    for number in range(1, last + 1):
        stage = await with_upstream()
        before = stage.objects()
        assert await stage.command(Side.QUORATE, given(), killed_after=number) is None
        ended = await stage.command(goal, given() if goal is Side.QUORATE and stage.find("Secret", "quorate-takeover") is None else None)
        assert ended is not None, number
        assert ended.over, (number, ended.decision)
        if goal is Side.QUORATE:
            taken_over(stage)
            assert stage.leader == OUR_DEPLOYMENT
        else:
            assert stage.objects() == before, number
            assert stage.leader == THEIR_DEPLOYMENT


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("goal", [Side.QUORATE, Side.UPSTREAM])
async def test_a_handback_that_is_killed_after_any_write_is_finished_or_taken_back(goal: Side) -> None:
    last = await writes_of(Side.UPSTREAM)
    for number in range(1, last):
        stage = await with_upstream()
        before = stage.objects()
        await stage.command(Side.QUORATE, given())
        assert await stage.command(Side.UPSTREAM, killed_after=number) is None
        ended = await stage.command(goal)
        assert ended is not None, number
        assert ended.over, (number, ended.decision)
        if goal is Side.QUORATE:
            taken_over(stage)
        else:
            assert stage.objects() == before, number


async def test_a_provider_that_does_not_come_up_is_taken_away_again() -> None:
    stage = await with_upstream(starts=lambda name: name != OUR_DEPLOYMENT)
    before = stage.objects()
    ended = await stage.command(Side.QUORATE, given(), limit=60.0)
    assert ended is not None
    assert returned(ended)
    assert stage.objects() == before
    assert stage.leader == THEIR_DEPLOYMENT
    assert max(stage.gaps) == 0.0, "upstream's has led all the time"


def returned(ended: Ended) -> bool:
    """Whether everything was put back."""
    record = ended.observation.record
    return ended.over and record is not None and bool(record.journal.returning)


async def test_upstreams_provider_that_does_not_come_up_again_leaves_quorate_in_its_place() -> None:
    stage = await with_upstream()
    await stage.command(Side.QUORATE, given())
    stage.starts = lambda name: name != THEIR_DEPLOYMENT
    ended = await stage.command(Side.UPSTREAM, limit=60.0)
    assert ended is not None
    assert returned(ended)
    taken_over(stage)
    stage.starts = lambda _: True
    again = await stage.command(Side.UPSTREAM)
    assert again is not None
    assert stage.leader == THEIR_DEPLOYMENT


async def test_somebody_who_edits_an_object_meanwhile_is_not_overrun() -> None:
    stage = await with_upstream()

    def edit(doing: str) -> None:
        if "deployments" in doing and "create" in doing:
            patch = {"spec": {"selector": {"cluster.x-k8s.io/provider": "mine"}}}
            stage.server.merge_patch(SERVED["Service"], SYSTEM, f"{PREFIX}-webhook-service", patch, who="somebody")

    ended = await stage.command(Side.QUORATE, given(), between=edit)
    assert ended is not None
    assert returned(ended)
    assert stage.leader == THEIR_DEPLOYMENT
    assert any("has been changed since" in line for line in stage.told)


async def test_a_gitops_controller_that_brings_an_object_back_ends_the_attempt() -> None:
    stage = await with_upstream()
    theirs = next(item for item in upstream() if item["kind"] == "Service")
    patch = {"metadata": {"labels": theirs["metadata"]["labels"]}, "spec": theirs["spec"]}

    def revive(written: Change) -> None:
        if written.who == "quorate" and written.kind is SERVED["Service"]:
            loop.call_soon(partial(stage.server.merge_patch, written.kind, *written.object.key, patch, who="flux"))

    loop = asyncio.get_running_loop()
    stage.server.subscribe(revive)
    ended = await stage.command(Side.QUORATE, given())
    assert ended is not None
    assert returned(ended)
    assert any("changed back again and again" in line for line in stage.told)
    assert stage.leader == THEIR_DEPLOYMENT


async def test_objects_that_are_missing_are_made_and_are_missing_again_afterwards() -> None:
    stage = await with_upstream()
    stage.server.delete(SERVED["MutatingWebhookConfiguration"], "", f"{PREFIX}-mutating-webhook-configuration", who="somebody")
    before = stage.objects()
    await stage.command(Side.QUORATE, given())
    taken_over(stage)
    await stage.command(Side.UPSTREAM)
    assert stage.objects() == before


async def test_labels_and_authorities_that_others_set_stay() -> None:
    stage = await with_upstream()
    stage.server.merge_patch(SERVED["Namespace"], "", SYSTEM, {"metadata": {"labels": {"team": "platform"}}}, who="somebody")
    hooks = [{"name": "validating.x", "clientConfig": {"caBundle": "Q0E=", "service": {"name": "s", "namespace": SYSTEM, "path": "/v"}}}]
    name = f"{PREFIX}-validating-webhook-configuration"
    stage.server.merge_patch(SERVED["ValidatingWebhookConfiguration"], "", name, {"webhooks": hooks}, who="cert-manager")
    before = stage.objects()
    await stage.command(Side.QUORATE, given())
    namespace, configuration = stage.find("Namespace", SYSTEM, ""), stage.find("ValidatingWebhookConfiguration", name, "")
    assert namespace is not None
    assert configuration is not None
    assert namespace["metadata"]["labels"]["team"] == "platform"
    assert configuration["webhooks"][0]["clientConfig"]["caBundle"] == "Q0E="
    assert configuration["webhooks"][0]["clientConfig"]["service"]["path"] == "/validating"
    await stage.command(Side.UPSTREAM)
    assert stage.objects() == before


async def test_what_others_need_is_never_deleted() -> None:
    stage = await with_upstream()
    await stage.command(Side.QUORATE, given())
    await stage.command(Side.UPSTREAM)
    deleted = {
        f"{each.kind.kind} {each.object.name}"
        for kind in SERVED.values()
        for each in stage.server.since(kind, 0)
        if each.who == "quorate" and each.after is None
    }
    assert not {name for name in deleted if name.startswith(("Namespace", "CustomResourceDefinition", "Secret tls"))}
    assert f"Deployment {THEIR_DEPLOYMENT}" in deleted


async def test_without_clusterctl_there_is_no_entry_in_its_inventory() -> None:
    stage = Stage().install([item for item in upstream() if item["kind"] != "Provider"])
    await stage.passes(10.0)
    await stage.command(Side.QUORATE, given())
    assert stage.find("Provider", OURS) is None
    assert stage.leader == OUR_DEPLOYMENT


async def test_quorate_that_serves_webhooks_only_as_the_leader_takes_over_too() -> None:
    stage = await with_upstream()
    components = given("--webhook-certificates=self-managed")
    ended = await stage.command(Side.QUORATE, components)
    assert ended is not None
    assert ended.over
    assert stage.leader == OUR_DEPLOYMENT
    order = [line for line in stage.told if line.startswith(("write Service ", "scale"))]
    assert order[0].startswith("scale")


async def test_a_lease_that_somebody_outside_the_cluster_renews_is_left_alone() -> None:
    """Someone runs a manager at home, under a name that is no Pod's."""
    stage = await with_upstream()

    async def outsider() -> None:
        while True:
            await asyncio.sleep(1.0)
            found = stage.find("Deployment", THEIR_DEPLOYMENT)
            if found is not None and found["spec"]["replicas"] == 0:
                stage.write_lease("laptop")

    async with asyncio.TaskGroup() as tasks:
        other = tasks.create_task(outsider())
        await stage.command(Side.QUORATE, given())
        other.cancel()
    assert not [line for line in stage.told if "free the Lease" in line]


async def test_what_the_server_would_not_take_is_known_before_anything_is_changed() -> None:
    stage = await with_upstream(unserved=("NetworkPolicy",))
    before = stage.objects()
    ended = await stage.command(Side.QUORATE, given())
    assert ended is not None
    assert not ended.over
    assert preflight.KINDS in {check.name for check in ended.decision.refusals}
    assert stage.objects() == before


async def test_a_control_plane_that_would_be_changed_keeps_everything_as_it_is() -> None:
    stage = await with_upstream()
    before = stage.objects()
    surprised = (ControlPlane(name="default/a", prospect=Prospect.OTHERWISE, evidence="deletes a-1"),)
    ended = await stage.command(Side.QUORATE, given(), control_planes=surprised)
    assert ended is not None
    assert not ended.over
    assert stage.objects() == before
    assert stage.find("Secret", "quorate-takeover") is None
    accepted = await stage.command(Side.QUORATE, given(), control_planes=surprised, accepted=frozenset({"default/a"}))
    assert accepted is not None
    assert accepted.over


async def test_a_provider_that_leaves_the_conditions_unwritten_is_taken_away_again() -> None:
    stage = await with_upstream()
    silent = (
        ControlPlane(name="default/a", prospect=Prospect.AT_REST, evidence="nothing to do", unreported="its generation 2 is not observed"),
    )
    before = stage.objects()
    ended = await stage.command(Side.QUORATE, given(), control_planes=silent, limit=90.0)
    assert ended is not None
    assert returned(ended)
    assert change.IN_TIME in record_of(ended).journal.returning
    assert stage.leader == THEIR_DEPLOYMENT
    assert stage.objects() == before


async def test_a_damaged_journal_is_named_and_nothing_is_changed() -> None:
    stage = await with_upstream()
    await stage.command(Side.QUORATE, given(), killed_after=5)
    stage.server.merge_patch(SERVED["Secret"], SYSTEM, "quorate-takeover", {"data": {"upstream": "!"}}, who="somebody")
    version = stage.server.version
    with pytest.raises(ExceptionGroup) as failure:
        await stage.command(Side.UPSTREAM)
    assert "quorate-takeover cannot be read" in str(failure.value.exceptions[0])
    assert not [each for kind in SERVED.values() for each in stage.server.since(kind, version) if each.who == "quorate"]


async def test_handback_without_anything_written_down_needs_upstreams_components() -> None:
    stage = await with_upstream()
    with pytest.raises(ExceptionGroup) as failure:
        await stage.command(Side.UPSTREAM)
    assert "--components" in str(failure.value.exceptions[0])


async def test_upstreams_components_may_be_given_in_place_of_those_that_were_saved() -> None:
    stage = await with_upstream()
    await stage.command(Side.QUORATE, given())
    newer = upstream("--v=4")
    ended = await stage.command(Side.UPSTREAM, installation.of(Side.UPSTREAM, newer))
    assert ended is not None
    assert ended.over
    found = stage.find("Deployment", THEIR_DEPLOYMENT)
    assert found is not None
    assert found["spec"]["template"]["spec"]["containers"][0]["args"] == ["--leader-elect", "--v=4"]


def record_of(ended: Ended) -> Record:
    """What was written down when the run ended."""
    assert ended.observation.record is not None
    return ended.observation.record
