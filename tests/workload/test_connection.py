"""The life of a connection, in virtual time: connect, watch, probe, lose, connect again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from quorate.core.health import Absent, Unknown
from quorate.etcd.dialers import DirectDialer
from quorate.etcd.pool import Pool
from quorate.kubernetes.errors import ConnectionFailed, Forbidden, Gone, ServerError, Timeout, TooMuch, Unauthorized
from quorate.kubernetes.objects import NodeAddress
from quorate.pki.keys import KeyPair
from quorate.workload import connection
from quorate.workload.access import AccessUnavailable, EtcdSecrets
from quorate.workload.connection import Phase, Setup, Workload
from quorate.workload.static_pods import Component
from quorate.workload.updates import CannotUpdate

START = datetime(2026, 1, 1, tzinfo=UTC)
KUBECONFIG = b"""
current-context: c
contexts: [{name: c, context: {cluster: k, user: a}}]
clusters: [{name: k, cluster: {server: "https://api:6443"}}]
users: [{name: a, user: {token: t}}]
"""
DOWN = ConnectionFailed("connection refused")


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


def loop_time() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class FakeSecrets:
    content: bytes = KUBECONFIG
    problem: str = ""
    etcd_secrets: EtcdSecrets | None = None

    async def kubeconfig(self) -> bytes:
        if self.problem:
            raise AccessUnavailable(self.problem)
        return self.content

    async def etcd(self) -> EtcdSecrets:
        if self.etcd_secrets is None:
            raise AccessUnavailable("Secret blue-etcd does not exist")
        return self.etcd_secrets


async def _minted(ca: KeyPair) -> KeyPair:
    return ca


async def _expiry(_client: object, node: str, port: int) -> datetime:
    assert (node, port) == ("cp-a", 6443)
    return datetime(2027, 1, 1, tzinfo=UTC)


@dataclass
class Stage:
    """A Workload that runs, and the times at which it told of a change."""

    cluster: Any
    secrets: FakeSecrets = field(default_factory=FakeSecrets)
    changes: list[float] = field(default_factory=list)
    workload: Workload[Any] = field(init=False)

    def __post_init__(self) -> None:
        pool = Pool(loop_time)
        setup: Setup[Any] = Setup(self.cluster.connect, lambda _: DirectDialer({}), _minted, pool, now, Random(1), _expiry)
        self.workload = Workload("default/blue", self.secrets, setup, lambda: self.changes.append(loop_time()))

    def phase(self) -> Phase:
        return self.workload.connectivity.phase

    @property
    def attempts(self) -> int:
        return len(self.cluster.configs)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.workload.run())
            await asyncio.sleep(0.01)
            try:
                yield
            finally:
                task.cancel()


@pytest.fixture
async def stage(cluster: Any) -> Stage:
    return Stage(cluster)


async def test_a_cluster_that_answers_is_connected_at_once_and_tells_it_once(stage: Stage) -> None:
    assert stage.phase() is Phase.NEVER_CONNECTED
    async with stage.running():
        assert stage.phase() is Phase.CONNECTED
        assert len(stage.changes) == 1
        assert stage.workload.connectivity.last_success == stage.workload.connectivity.since


async def test_only_control_plane_nodes_and_pods_are_known_even_if_the_server_ignores_selectors(stage: Stage) -> None:
    async with stage.running():
        nodes = stage.workload.nodes()
        assert not isinstance(nodes, Unknown)
        assert [node.metadata.name for node in nodes] == ["cp-a"]
        assert not isinstance(stage.workload.pod(Component.API_SERVER, "cp-a"), Absent | Unknown)
        assert stage.workload.pod(Component.SCHEDULER, "cp-a") == Absent()
        assert stage.workload.running(Component.API_SERVER) == frozenset({"cp-a"})
        assert stage.workload.running(Component.SCHEDULER) == frozenset()


async def test_before_connecting_everything_is_unknown_with_the_reason(stage: Stage) -> None:
    stage.cluster.trouble["probe"] = DOWN
    async with stage.running():
        workload = stage.workload
        answers = [workload.client, workload.nodes(), await workload.node("cp-a"), workload.pod(Component.ETCD, "cp-a")]
        answers += [await workload.kubeadm_config_exists(), await workload.read_ring(["cp-a"])]
        answers.append(workload.running(Component.ETCD))
        assert answers == [Unknown("the workload cluster is not connected: connection refused")] * 7
        with pytest.raises(AccessUnavailable, match="connection refused"):
            async with workload.etcd("cp-a"):
                pass


@pytest.mark.parametrize("when", ["probe", "list"])
async def test_what_nobody_foresaw_of_one_cluster_is_the_end_of_its_connection_alone(stage: Stage, when: str) -> None:
    stage.cluster.trouble[when] = RecursionError("too many levels")
    async with stage.running():
        assert stage.phase() is Phase.NEVER_CONNECTED
        assert stage.workload.connectivity.reason.startswith("its answers could not be processed: ")
        del stage.cluster.trouble[when]
        await asyncio.sleep(60)
        assert stage.phase() is Phase.CONNECTED


async def test_a_watch_that_is_cancelled_by_others_ends_the_connection_and_not_the_knowledge_of_changes(
    stage: Stage, node_of: Callable[..., Any]
) -> None:
    """Its task would end without a word, and what it last told pass for new for ever."""
    async with stage.running():
        cancelled = asyncio.CancelledError("somebody else's")
        stage.cluster.break_watch("nodes", cancelled)
        await asyncio.sleep(5)
        stage.cluster.send("nodes", "ADDED", node_of("cp-b", version="11"))
        await asyncio.sleep(1)
        nodes = stage.workload.nodes()
        assert not isinstance(nodes, Unknown)
        assert {node.metadata.name for node in nodes} == {"cp-a", "cp-b"}


async def test_a_node_without_the_label_is_found_by_asking(stage: Stage) -> None:
    async with stage.running():
        found = await stage.workload.node("worker")
        assert not isinstance(found, Absent | Unknown)
        assert await stage.workload.node("nobody") == Absent()
        stage.cluster.trouble["get"] = ServerError("get nodes: boom", code=500)
        assert await stage.workload.node("nobody") == Unknown("get nodes: boom")


async def test_the_kubeadm_config_is_there_or_not_or_unknown(stage: Stage, kubeadm_config: Any) -> None:
    async with stage.running():
        assert await stage.workload.kubeadm_config_exists() is False
        stage.cluster.objects["configmaps"].append(kubeadm_config)
        assert await stage.workload.kubeadm_config_exists() is True
        stage.cluster.hang.add("get")
        assert await stage.workload.kubeadm_config_exists() == Unknown("no answer in time")


async def test_a_certificate_is_asked_for_while_connected_and_refused_with_the_reason_otherwise(stage: Stage) -> None:
    with pytest.raises(CannotUpdate, match="not connected"):
        await stage.workload.certificate_expiry("cp-a", 6443)
    async with stage.running():
        assert (await stage.workload.certificate_expiry("cp-a", 6443)).year == 2027


async def test_a_change_of_a_node_is_told_and_a_mere_new_version_is_not(stage: Stage, node_of: Callable[..., Any]) -> None:
    async with stage.running():
        before = len(stage.changes)
        stage.cluster.send("nodes", "MODIFIED", node_of("cp-a", version="11", provider_id="x://a"))
        await asyncio.sleep(0.01)
        assert len(stage.changes) == before
        stage.cluster.send("nodes", "MODIFIED", node_of("cp-a", version="12", provider_id="x://b"))
        await asyncio.sleep(0.01)
        assert len(stage.changes) == before + 1


async def test_pods_that_come_change_and_go_are_told(stage: Stage, pod_of: Callable[..., Any]) -> None:
    async with stage.running():
        before = len(stage.changes)
        stage.cluster.send("pods", "ADDED", pod_of("etcd-cp-a", version="11", phase="Pending"))
        stage.cluster.send("pods", "MODIFIED", pod_of("etcd-cp-a", version="12"))
        stage.cluster.send("pods", "DELETED", pod_of("etcd-cp-a", version="13"))
        stage.cluster.send("pods", "ADDED", pod_of("coredns-2", version="14", tier=""))
        await asyncio.sleep(0.01)
        assert len(stage.changes) == before + 3


async def attempts_within(stage: Stage, seconds: float) -> list[float]:
    """The times between attempts."""
    await asyncio.sleep(seconds)
    probes: list[float] = stage.cluster.probes
    return [later - earlier for earlier, later in pairwise(probes)]


async def test_while_a_control_plane_is_expected_the_attempts_are_at_most_a_second_apart(stage: Stage) -> None:
    stage.cluster.trouble["probe"] = DOWN
    stage.workload.expect_soon({"a"})
    async with stage.running():
        gaps = await attempts_within(stage, 60)
        assert gaps[1] < 0.5
        assert max(gaps) <= 1.0
        assert len(gaps) > 55


async def test_otherwise_the_attempts_spread_to_half_a_minute(stage: Stage) -> None:
    stage.cluster.trouble["probe"] = DOWN
    async with stage.running():
        gaps = await attempts_within(stage, 300)
        assert gaps[0] <= 0.2
        assert 20 < max(gaps) <= 30
        assert stage.workload.connectivity.consecutive_failures == stage.attempts


async def test_expecting_it_soon_cuts_a_long_pause_short(stage: Stage) -> None:
    stage.cluster.trouble["probe"] = DOWN
    async with stage.running():
        await asyncio.sleep(300)
        before = stage.attempts
        stage.workload.expect_soon({"a"})
        await asyncio.sleep(0.01)
        assert stage.attempts == before + 1
        stage.workload.expect_soon({"a"})
        await asyncio.sleep(0.01)
        assert stage.attempts == before + 1


async def test_a_machine_that_never_answers_is_hurried_for_ten_minutes_and_another_one_again(stage: Stage) -> None:
    stage.cluster.trouble["probe"] = DOWN
    stage.workload.expect_soon({"a"})
    async with stage.running():
        await asyncio.sleep(630)
        stage.workload.expect_soon({"a"})
        stage.cluster.probes.clear()
        assert len(await attempts_within(stage, 300)) < 16
        stage.workload.expect_soon({"a", "b"})
        stage.cluster.probes.clear()
        assert len(await attempts_within(stage, 300)) > 290
        stage.workload.expect_soon({"a"})
        stage.cluster.probes.clear()
        assert len(await attempts_within(stage, 280)) > 270
        stage.workload.expect_soon(())
        stage.cluster.probes.clear()
        assert len(await attempts_within(stage, 300)) < 16


async def test_a_cluster_that_hangs_fails_the_attempt_in_five_seconds(stage: Stage) -> None:
    stage.cluster.hang.add("probe")
    async with stage.running():
        await asyncio.sleep(5.1)
        assert stage.workload.connectivity.reason == "no answer in time"
        assert stage.cluster.clients[0].closed == 1


async def test_a_list_that_is_forbidden_is_the_reason(stage: Stage) -> None:
    stage.cluster.trouble["list"] = Forbidden("list nodes: forbidden", code=403)
    async with stage.running():
        await asyncio.sleep(10.5)
        assert stage.phase() is Phase.NEVER_CONNECTED
        assert "list nodes: forbidden" in stage.workload.connectivity.reason


@contextmanager
def refusing(cluster: Any, error: Exception) -> Iterator[None]:
    cluster.connect, connect = _raiser(error), cluster.connect
    yield
    cluster.connect = connect


def _raiser(error: Exception) -> Callable[[bytes, object], Any]:
    def connect(_: bytes, __: object) -> Any:
        raise error

    return connect


async def test_a_missing_or_dangerous_or_malformed_kubeconfig_is_the_reason(cluster: Any) -> None:
    missing = Stage(cluster, FakeSecrets(problem="Secret blue-kubeconfig does not exist"))
    async with missing.running():
        assert missing.workload.connectivity.reason == "Secret blue-kubeconfig does not exist"
    dangerous = Stage(cluster, FakeSecrets(KUBECONFIG.replace(b"token: t", b"exec: {command: sh}")))
    async with dangerous.running():
        assert "uses exec" in dangerous.workload.connectivity.reason
    assert cluster.configs == []
    with refusing(cluster, ValueError("the certificate is none")):
        malformed = Stage(cluster)
    async with malformed.running():
        assert malformed.workload.connectivity.reason == "the certificate is none"


async def test_a_silent_connection_is_probed_every_twenty_five_seconds(stage: Stage) -> None:
    async with stage.running():
        await asyncio.sleep(105)
        assert stage.phase() is Phase.CONNECTED
        assert stage.cluster.probes == pytest.approx([0, 25, 50, 75, 100], abs=0.1)  # the first is the attempt's own
        assert stage.workload.connectivity.last_success is not None
        assert now() - stage.workload.connectivity.last_success <= timedelta(seconds=25.1)


async def test_a_watch_that_breaks_has_the_api_server_probed_at_once_and_lost_in_forty_seconds(stage: Stage) -> None:
    async with stage.running():
        await asyncio.sleep(3)
        stage.cluster.trouble["probe"] = stage.cluster.trouble["list"] = DOWN
        stage.cluster.break_watch("nodes", DOWN)
        stage.cluster.break_watch("pods", DOWN)
        await asyncio.sleep(45)
        assert stage.cluster.probes[1:6] == pytest.approx([3, 13, 23, 33, 43], abs=0.1)
        assert stage.phase() is Phase.LOST


async def test_a_watch_that_breaks_alone_loses_nothing(stage: Stage) -> None:
    async with stage.running():
        await asyncio.sleep(3)
        stage.cluster.break_watch("nodes", DOWN)
        await asyncio.sleep(20)
        assert stage.cluster.probes == pytest.approx([0, 3], abs=0.1)
        assert stage.workload.connectivity.consecutive_failures == 0


async def test_a_watch_that_was_silent_for_as_long_as_it_may_be_loses_nothing(stage: Stage) -> None:
    """Cluster API's in-memory server answers a watch with nothing, not even headers, until something happens."""
    async with stage.running():
        for _ in range(3):
            await asyncio.sleep(130)
            stage.cluster.break_watch("nodes", Timeout("watch nodes: no answer within 130 s", code=504))
        await asyncio.sleep(60)
        assert stage.phase() is Phase.CONNECTED
        assert (stage.attempts, len(stage.changes)) == (1, 1)


async def test_a_watch_that_breaks_alone_and_stays_broken_loses_the_connection(stage: Stage) -> None:
    """The API server answers probes, and the other watch: what is known of Nodes would otherwise pass for new for ever."""
    async with stage.running():
        await asyncio.sleep(3)
        stage.cluster.trouble["list"] = ServerError("list nodes: the answer has more than 100000 values", code=500)
        stage.cluster.break_watch("nodes", Gone("too old", code=410))
        await asyncio.sleep(70)
        assert stage.phase() is Phase.CONNECTED
        await asyncio.sleep(40)
        assert stage.phase() is Phase.LOST
        assert isinstance(stage.workload.nodes(), Unknown)
        assert "the answer has more than 100000 values" in stage.workload.connectivity.reason


async def test_more_nodes_than_are_kept_end_the_connection_with_their_number(stage: Stage, node_of: Callable[..., Any]) -> None:
    async with stage.running():
        for number in range(499):
            stage.cluster.send("nodes", "ADDED", node_of(f"n-{number}", version=str(11 + number)))
        await asyncio.sleep(1)
        nodes = stage.workload.nodes()
        assert not isinstance(nodes, Unknown)
        assert len(nodes) == 500
        stage.cluster.send("nodes", "ADDED", node_of("one-more", version="600"))
        await asyncio.sleep(0.1)
        assert stage.phase() is Phase.LOST
        assert stage.workload.connectivity.reason == (
            "there are 501 nodes node-role.kubernetes.io/control-plane, and no more than 500 are kept"
        )


async def test_more_pods_than_are_kept_are_the_reason_why_there_is_no_connection(stage: Stage, pod_of: Callable[..., Any]) -> None:
    stage.cluster.objects["pods"] = [pod_of(f"etcd-n-{number}") for number in range(2501)]
    async with stage.running():
        await asyncio.sleep(11)
        assert stage.phase() is Phase.NEVER_CONNECTED
        assert "there are 2501 pods tier=control-plane, and no more than 2500 are kept" in stage.workload.connectivity.reason


async def test_of_nodes_and_pods_only_what_is_read_is_kept(stage: Stage, node_of: Callable[..., Any], pod_of: Callable[..., Any]) -> None:
    large = {"note": "x" * (1 << 20)}
    for plural, obj in (("nodes", node_of("cp-b", version="11")), ("pods", pod_of("etcd-cp-b", version="11"))):
        metadata = replace(obj.metadata, annotations=large, labels=obj.metadata.labels | large, finalizers=["x" * (1 << 20)])
        stage.cluster.objects[plural].append(replace(obj, metadata=metadata))
    async with stage.running():
        assert stage.phase() is Phase.CONNECTED
        nodes, pod = stage.workload.nodes(), stage.workload.pod(Component.ETCD, "cp-b")
        assert not isinstance(nodes, Unknown)
        assert [node.metadata.name for node in nodes] == ["cp-a", "cp-b"]
        assert all(len(encode(kept)) < 1024 for kept in (*nodes, pod))
        stage.changes.clear()
        stage.cluster.send(
            "nodes", "MODIFIED", replace(nodes[1], metadata=replace(nodes[1].metadata, resource_version="12", annotations=large))
        )
        await asyncio.sleep(0.1)
        assert stage.changes == []


async def test_a_node_that_is_large_in_what_is_read_ends_the_connection_by_name(stage: Stage, node_of: Callable[..., Any]) -> None:
    async with stage.running():
        node = node_of("cp-b", version="11")
        addresses = [NodeAddress(type="InternalIP", address=f"10.0.{number >> 8}.{number & 255}") for number in range(1000)]
        stage.cluster.send("nodes", "ADDED", replace(node, status=replace(node.status, addresses=addresses)))
        await asyncio.sleep(0.1)
        assert stage.phase() is Phase.LOST
        assert stage.workload.connectivity.reason.startswith("Node cp-b has 4")
        assert stage.workload.connectivity.reason.endswith(
            "KiB of conditions, taints, addresses and the like, and no more than 16 are kept"
        )


async def test_a_node_that_is_asked_for_by_name_is_kept_no_larger_than_those_that_are_watched(
    stage: Stage, node_of: Callable[..., Any]
) -> None:
    """A tenant's etcd names a hundred members, or its API server 2,500 Pods of etcd, each with a Node that no label gives away."""
    large, noted = node_of("large", labelled=False), node_of("noted", labelled=False)
    addresses = [NodeAddress(type="", address="x" * (1 << 20))]
    stage.cluster.objects["nodes"] += [
        replace(large, status=replace(large.status, addresses=addresses)),
        replace(noted, metadata=replace(noted.metadata, annotations={"note": "x" * (1 << 20)})),
    ]
    async with stage.running():
        assert await stage.workload.node("large") == Unknown(
            "Node large has 1024 KiB of conditions, taints, addresses and the like, and no more than 16 are kept"
        )
        assert len(encode(await stage.workload.node("noted"))) < 1024


async def test_nodes_are_asked_for_a_few_at_a_time_and_none_for_longer_than_the_first(stage: Stage) -> None:
    """So many answers are in memory at once; of a server that does not answer nobody waits for one after the other."""
    async with stage.running():
        stage.cluster.hang.add("get")
        began = loop_time()
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(stage.workload.node(f"n-{number}")) for number in range(100)]
            await asyncio.sleep(1)
            assert stage.cluster.getting == 5
        assert loop_time() - began == pytest.approx(10)
        assert {task.result() for task in asked} == {Unknown("no answer in time")}


async def test_what_the_watches_tell_makes_probes_needless(stage: Stage, node_of: Callable[..., Any]) -> None:
    async with stage.running():
        for version in range(11, 23):
            await asyncio.sleep(5)
            stage.cluster.send("nodes", "MODIFIED", node_of("cp-a", version=str(version), provider_id="x://a"))
        assert len(stage.cluster.probes) == 1


async def test_five_probes_that_fail_lose_the_connection(stage: Stage) -> None:
    async with stage.running():
        stage.cluster.trouble["probe"] = DOWN
        await asyncio.sleep(64)
        assert stage.phase() is Phase.CONNECTED
        assert stage.workload.connectivity.consecutive_failures == 4
        assert stage.workload.connectivity.reason == "connection refused"
        await asyncio.sleep(2)
        assert stage.phase() is Phase.LOST
        assert stage.changes[-1] == pytest.approx(65, abs=0.1)
        assert stage.workload.connectivity.last_success == START + timedelta(seconds=0)
        assert isinstance(stage.workload.nodes(), Unknown)
        assert stage.cluster.clients[0].closed == 1


async def test_a_cluster_that_hangs_is_lost_within_seventy_five_seconds(stage: Stage) -> None:
    async with stage.running():
        stage.cluster.hang.add("probe")
        await asyncio.sleep(76)
        assert stage.phase() is Phase.LOST
        assert stage.changes[-1] <= 75.1


async def test_one_probe_that_succeeds_forgets_the_failures(stage: Stage) -> None:
    async with stage.running():
        stage.cluster.trouble["probe"] = DOWN
        await asyncio.sleep(50)
        assert stage.workload.connectivity.consecutive_failures == 3
        del stage.cluster.trouble["probe"]
        await asyncio.sleep(10)
        assert stage.workload.connectivity.consecutive_failures == 0
        assert stage.workload.connectivity.reason == ""


async def test_what_was_lost_is_connected_again_with_another_client(stage: Stage) -> None:
    async with stage.running():
        stage.cluster.trouble["probe"] = DOWN
        await asyncio.sleep(66)
        lost = stage.workload.connectivity
        del stage.cluster.trouble["probe"]
        await asyncio.sleep(5)
        assert lost.phase is Phase.LOST
        assert stage.phase() is Phase.CONNECTED
        assert stage.cluster.clients[-1] is not stage.cluster.clients[0]
        assert not isinstance(stage.workload.nodes(), Unknown)


@pytest.mark.parametrize("where", ["probe", "watch"])
async def test_credentials_that_are_refused_are_read_again_at_once(stage: Stage, where: str) -> None:
    async with stage.running():
        stage.secrets.content = KUBECONFIG.replace(b"token: t", b"token: rotated")
        refusal = Unauthorized("unauthorized", code=401)
        if where == "probe":
            stage.cluster.trouble["probe"] = refusal
            await asyncio.sleep(25)
            del stage.cluster.trouble["probe"]
        else:
            stage.cluster.break_watch("pods", refusal)
        await asyncio.sleep(0.05 if where == "watch" else 1)
        assert stage.phase() is Phase.CONNECTED
        assert await stage.cluster.configs[-1].credentials.token() == "rotated"


ELSEWHERE = KUBECONFIG.replace(b"https://api:6443", b"https://restored:6443")
OTHER_CA = KUBECONFIG.replace(b"{server", b"{certificate-authority-data: YXV0aG9yaXR5, server")


@pytest.mark.parametrize("content", [ELSEWHERE, OTHER_CA], ids=["server", "ca"])
async def test_a_kubeconfig_that_names_another_server_ends_the_connection_to_the_one_before(stage: Stage, content: bytes) -> None:
    """The cluster was restored elsewhere, and the API server of before still answers: its ring is not the one that is judged and changed."""
    stage.secrets.etcd_secrets = EtcdSecrets(KeyPair(b"ca", b"key"))
    async with stage.running():
        stage.secrets.content = content
        moved = "the Secret of the kubeconfig names another API server, or another CA of it, than the one that is connected"
        assert await stage.workload.read_ring(["cp-a"]) == Unknown(moved)
        with pytest.raises(AccessUnavailable, match=moved):
            async with stage.workload.etcd("cp-a"):
                pass
        await asyncio.sleep(1)
        assert stage.phase() is Phase.CONNECTED
        assert stage.attempts == 2
        assert [client.closed for client in stage.cluster.clients] == [1, 0]


async def test_a_connection_ends_in_half_a_minute_though_nobody_asks_for_etcd(stage: Stage) -> None:
    async with stage.running():
        stage.secrets.content = ELSEWHERE
        await asyncio.sleep(30)
        assert [config.server for config in stage.cluster.configs] == ["https://api:6443", "https://restored:6443"]


@pytest.mark.parametrize("content", [KUBECONFIG.replace(b"token: t", b"token: rotated"), b"no kubeconfig", b""])
async def test_a_connection_stays_whatever_else_becomes_of_the_kubeconfig(stage: Stage, content: bytes) -> None:
    async with stage.running():
        stage.secrets.content = content
        await asyncio.sleep(600)
        stage.secrets.problem = "Secret blue-kubeconfig does not exist"
        await asyncio.sleep(600)
        assert stage.phase() is Phase.CONNECTED
        assert stage.attempts == 1


async def test_credentials_refused_for_good_are_not_tried_without_pause(stage: Stage) -> None:
    async with stage.running():
        stage.cluster.trouble["probe"] = stage.cluster.trouble["list"] = Unauthorized("unauthorized", code=401)
        stage.cluster.break_watch("nodes", Unauthorized("unauthorized", code=401))
        await asyncio.sleep(60)
        assert stage.phase() is Phase.LOST
        assert stage.attempts < 15


@pytest.mark.parametrize("error", [Unauthorized("unauthorized", code=401), TooMuch("there are 501 nodes")], ids=["refused", "too many"])
async def test_who_lets_us_in_and_out_again_is_not_connected_without_pause(stage: Stage, error: Exception) -> None:
    """Each connection costs everybody some 20 ms of CPU, and each time it comes and goes the control plane is reported on."""
    stage.cluster.trouble["watch"] = error
    async with stage.running():
        await asyncio.sleep(60)
        assert stage.phase() is Phase.LOST
        assert stage.attempts < 15
        del stage.cluster.trouble["watch"]
        await asyncio.sleep(60)
        assert stage.phase() is Phase.CONNECTED
        before = stage.attempts
        stage.cluster.break_watch("nodes", Unauthorized("unauthorized", code=401))
        await asyncio.sleep(0.05)
        assert stage.attempts == before + 1


async def test_a_cluster_has_one_share_of_our_time_however_often_it_is_connected(stage: Stage) -> None:
    """Or whoever has used it up would end the connection, and have another."""
    async with stage.running():
        stage.cluster.trouble["probe"] = DOWN
        await asyncio.sleep(100)
    assert len(stage.cluster.shares) > 1
    assert len(set(stage.cluster.shares)) == 1


async def test_a_missing_etcd_secret_takes_nothing_else_away(stage: Stage) -> None:
    async with stage.running():
        assert await stage.workload.read_ring(["cp-a"]) == Unknown("Secret blue-etcd does not exist")
        assert not isinstance(stage.workload.nodes(), Unknown)


async def test_the_ring_is_read_through_the_pool(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    async def read_ring(lend: Any, nodes: tuple[str, ...], _: Any) -> Unknown:
        asked.append(nodes)
        with pytest.raises(ValueError, match="ca"):
            async with lend(nodes[0]):
                pass
        return Unknown("as asked")

    monkeypatch.setattr(connection, "read_ring", read_ring)
    stage.secrets.etcd_secrets = EtcdSecrets(KeyPair(b"no PEM", b""), KeyPair(b"certificate", b"key"))
    async with stage.running():
        assert await stage.workload.read_ring(["cp-a", "cp-b"]) == Unknown("as asked")
    assert asked == [("cp-a", "cp-b")]


async def test_the_members_connections_go_with_the_session(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[tuple[str, int]] = []

    async def forget(_: Pool, cluster: str) -> None:
        forgotten.append((cluster, stage.cluster.clients[-1].closed))

    monkeypatch.setattr(Pool, "forget", forget)
    async with stage.running():
        assert forgotten == []
    assert forgotten == [("default/blue", 0)]


async def test_the_end_closes_the_client(stage: Stage) -> None:
    async with stage.running():
        pass
    assert [client.closed for client in stage.cluster.clients] == [1]
