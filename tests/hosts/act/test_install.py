"""Clusters made of bare hosts, step by step, and cut short at every call: what is observed next leads to the same cluster."""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import replace

import pytest

from quorate.core.hosts.state import UNTOUCHED, Kind, RunOptions
from quorate.core.hosts.steps import Initialize, Join, JoinWorkers, Prepare, Reset, Step
from quorate.hosts.act import kubeadm
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.initialize import SUPER_ADMIN
from quorate.hosts.act.tokens import bootstrap_token
from quorate.hosts.connect.ssh.errors import ConnectionCut
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.component_fields import EncryptionProviders
from quorate.hosts.probe.facts import INITIALIZING, HostFacts, StaticPod
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.kubeadm_configuration import DISCOVERY_PATH, INIT_PATH, JOIN_PATH
from quorate.hosts.render.provider_files import RECORD
from quorate.kubernetes.errors import ServerError
from tests.hosts.act.test_settings import CONFIG_MAPS
from tests.hosts.act.world import DATA, SECRETS, FakeHost, World, pki_files, tools_for
from tests.hosts.manifests import document, load

RECORDED = f"{CONFIG_MAPS}/{RECORD}"
PROVIDERS = "/etc/kubernetes/encryption-providers/encryption-providers.yaml"


def manifest() -> Manifest:
    workers = {
        "hosts": [
            {"publicAddress": "192.0.2.4", "privateAddress": "10.0.0.4"},
            {"publicAddress": "192.0.2.5", "privateAddress": "10.0.0.5"},
        ]
    }
    kubelet = {"maxPods": 200}
    made = document(staticWorkers=workers, features__encryptionProviders={"enable": True}, controlPlane__hosts__1__kubelet=kubelet)
    return load(made)


def next_step(world: World) -> Step | None:
    """The order of an install, as far as the kinds of hosts alone tell it: a stand-in for the decision."""
    cluster = world.observed().cluster
    kinds = {host.name: host.kind for host in cluster.hosts}
    bare = tuple(name for name, kind in kinds.items() if kind is Kind.BARE)
    if bare:
        return Prepare(bare)
    controls = [host.name for host in cluster.control_planes]
    for name in controls:
        if kinds[name] is Kind.HALF_INITIALIZED:
            return Initialize(name, resume=True)
    if not any(kinds[name] is Kind.MEMBER for name in controls):
        return Initialize(controls[0])
    for name, kind in kinds.items():
        if kind is Kind.HALF_JOINED:
            world.members = [
                member for member in world.members if not (member.learner and world.hosts[name].address in member.peer_urls[0])
            ]
            return Reset(name)
    for name in controls:
        if kinds[name] in UNTOUCHED:
            return Join(name)
    workers = tuple(host.name for host in cluster.workers if host.kind in UNTOUCHED)
    return JoinWorkers(workers) if workers else None


async def install(world: World, contents: Contents | None = None) -> list[str]:
    """Step after step to the end; the failures on the way."""
    executor = Executor(tools_for(world, contents))
    failures: list[str] = []
    for _ in range(30):
        step = next_step(world)
        if step is None:
            return failures
        try:
            await executor.carry_out(step, world.observed())
        except StepFailed as failure:
            failures.append(str(failure))
    raise AssertionError(f"it does not come to an end: {failures}")


def is_complete(world: World) -> None:
    assert {name: world.kind(name) for name in world.hosts} == dict.fromkeys(world.hosts, Kind.MEMBER)
    assert [(member.name, member.learner) for member in world.members] == [("h1", False), ("h2", False), ("h3", False)]
    controls = [world.hosts[name] for name in ("h1", "h2", "h3")]
    for host in controls:
        assert {path: host.files[path] for path in pki_files()} == pki_files()
    assert len({host.files[PROVIDERS] for host in controls}) == 1, "every API server must have the same key"
    assert controls[0].files[DATA] == b"the only copy"
    for host in world.hosts.values():
        assert not {INIT_PATH, JOIN_PATH, DISCOVERY_PATH} & set(host.files), "a token is left on a host"
    assert PROVIDERS not in world.hosts["h4"].files, "a worker has no business with the key"


async def test_a_cluster_is_installed_without_a_failure_and_leaves_no_token() -> None:
    world = World(manifest())
    assert await install(world) == []
    is_complete(world)
    assert world.api.below(SECRETS) == []


async def test_a_hosts_own_kubelet_settings_are_there_before_it_joins() -> None:
    world = World(manifest())
    await install(world)
    patched = [name for name, host in world.hosts.items() if "/etc/kubernetes/patches/kubeletconfiguration0+merge.yaml" in host.files]
    assert patched == ["h2"]


async def test_workers_get_no_key_of_any_ca() -> None:
    world = World(manifest())
    await install(world)
    for name in ("h4", "h5"):
        assert not [path for path in world.hosts[name].files if path.endswith(".key")]


@pytest.mark.parametrize("how", ["before", "halfway", "after"])
async def test_cut_at_any_call_the_install_comes_to_the_same_end(how: str) -> None:
    whole = World(manifest())
    await install(whole)
    assert whole.calls > 20
    for call in range(1, whole.calls + 1):
        world = World(manifest(), cut=(call, how))
        failures = await install(world)
        assert len(failures) == 1, f"call {call} was cut, and that is what failed: {failures}"
        is_complete(world)


@pytest.mark.parametrize("encrypts", [True, False])
async def test_an_init_that_goes_on_keeps_the_key_that_secrets_may_be_encrypted_with(*, encrypts: bool) -> None:
    """Whatever the manifest says by then."""
    world = World(manifest())
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(("h1",)), world.observed())
    world.cut = (world.calls + 1, "halfway")
    with pytest.raises(StepFailed):
        await executor.carry_out(Initialize("h1"), world.observed())
    first = world.hosts["h1"].files[PROVIDERS]
    assert world.kind("h1") is Kind.HALF_INITIALIZED
    off = replace(world.manifest.features, encryption_providers=EncryptionProviders())
    world.manifest = world.manifest if encrypts else replace(world.manifest, features=off)
    await Executor(tools_for(world)).carry_out(Initialize("h1", resume=True), world.observed())
    assert world.hosts["h1"].files[PROVIDERS] == first
    assert f"value: {PROVIDERS}\n" in _last_init(world)


async def test_a_token_stays_where_one_of_several_workers_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(manifest())
    executor = Executor(tools_for(world))
    while not isinstance(step := next_step(world), JoinWorkers):
        assert step is not None
        await executor.carry_out(step, world.observed())
    world.failures["h5"] = "kubeadm join --config", "it fails"
    change = FakeHost.change

    async def cut(self: FakeHost, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        outcome = await change(self, script, stdin=stdin, deadline=deadline)
        if self.name == "h4" and "kubeadm join --config" in script:
            raise ConnectionCut(self.name, "the connection ended before the script did")
        return outcome

    monkeypatch.setattr(FakeHost, "change", cut)
    with pytest.raises(StepFailed) as failed:
        await executor.carry_out(step, world.observed())
    assert len(world.api.below(SECRETS)) == 1
    assert isinstance(failed.value.__cause__, ConnectionCut)  # upon which the run looks again


async def test_an_init_that_goes_on_makes_no_key_beside_secrets_that_are_stored_as_plain_text() -> None:
    """They would be called encrypted, and stay as they are: keys come in stages, once the cluster stands."""
    on = manifest()
    world = World(replace(on, features=replace(on.features, encryption_providers=EncryptionProviders())))
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(("h1",)), world.observed())
    world.cut = (world.calls + 1, "halfway")
    with pytest.raises(StepFailed):
        await executor.carry_out(Initialize("h1"), world.observed())
    world.manifest, seen = on, world.observed()
    found = seen.facts["h1"]
    assert isinstance(found, HostFacts)
    begun = replace(found, manifests={"kube-apiserver.yaml": StaticPod("0" * 64, (), ("--secure-port=6443",))})
    await Executor(tools_for(world)).carry_out(Initialize("h1", resume=True), replace(seen, facts={**seen.facts, "h1": begun}))
    assert PROVIDERS not in world.hosts["h1"].files
    assert PROVIDERS not in _last_init(world)
    assert not [path for path in world.api.objects if path.endswith(f"/{RECORD}")]


def _last_init(world: World) -> str:
    placed = re.findall(rf"printf %s '([^']*)' \| place {INIT_PATH} ", "\n".join(world.hosts["h1"].scripts))
    return base64.b64decode(placed[-1]).decode()


async def test_an_init_that_goes_on_says_nothing_of_how_secrets_are_stored() -> None:
    """An earlier attempt may have stored some as plain text, before the manifest asked for encryption."""
    world = World(manifest())
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(("h1",)), world.observed())
    world.manifest = replace(world.manifest, features=replace(world.manifest.features, encryption_providers=EncryptionProviders()))
    world.cut = (world.calls + 1, "halfway")
    with pytest.raises(StepFailed):
        await Executor(tools_for(world)).carry_out(Initialize("h1"), world.observed())
    world.manifest = manifest()
    await Executor(tools_for(world)).carry_out(Initialize("h1", resume=True), world.observed())
    assert RECORDED not in world.api.objects


async def test_an_init_records_how_secrets_are_stored_from_the_beginning() -> None:
    world = World(manifest())
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(("h1",)), world.observed())
    await executor.carry_out(Initialize("h1"), world.observed())
    assert RECORDED in world.api.objects


async def test_an_init_is_marked_as_begun_until_kubeadm_has_ended_well() -> None:
    world = World(manifest())
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(("h1",)), world.observed())
    await executor.carry_out(Initialize("h1"), world.observed())
    script = next(script for script in world.hosts["h1"].scripts if "kubeadm init --config" in script)
    assert script.index(INITIALIZING) < script.index("kubeadm init --config") < script.index(f"rm -f -- {INITIALIZING} {SUPER_ADMIN}")


async def test_nobody_joins_with_a_new_key_where_the_old_one_is_lost() -> None:
    world = World(manifest())
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(("h1", "h2")), world.observed())
    await executor.carry_out(Initialize("h1"), world.observed())
    del world.hosts["h1"].files[PROVIDERS]
    with pytest.raises(StepFailed, match=r"h1, h2, h3: Secrets are encrypted, and no host has /etc/kubernetes/encryption-providers"):
        await executor.carry_out(Join("h2"), world.observed())
    assert PROVIDERS not in world.hosts["h2"].files


async def test_one_host_that_fails_does_not_stop_the_others() -> None:
    world = World(manifest())
    world.failures["h2"] = ("apt-mark hold", "no repository of this host has kubeadm 1.34.4; it has: 1.33.0")
    with pytest.raises(StepFailed) as failed:
        await Executor(tools_for(world)).carry_out(Prepare(tuple(world.hosts)), world.observed())
    assert failed.value.where == "h2"
    assert "no repository of this host has kubeadm 1.34.4" in failed.value.cause
    assert {name for name, host in world.hosts.items() if host.packages} == {"h1", "h3", "h4", "h5"}
    assert ("h2", f"failed: {failed.value.cause}") in world.reports


async def test_images_are_pulled_and_the_preflight_asked_on_control_planes_alone() -> None:
    world = World(manifest())
    await Executor(tools_for(world)).carry_out(Prepare(tuple(world.hosts)), world.observed())
    asked = {name for name, host in world.hosts.items() if "kubeadm init phase preflight" in host.ran}
    assert asked == {"h1", "h2", "h3"}


async def test_a_member_that_nobody_knows_joins_no_one_else() -> None:
    world = World(manifest())
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(tuple(world.hosts)), world.observed())
    await executor.carry_out(Initialize("h1"), world.observed())
    decided = world.observed()
    stranger = world.hosts["h3"]
    world.members.append(type(world.members[0])(99, "", (f"https://{stranger.address}:2380",), learner=True))
    with pytest.raises(StepFailed, match="one joining member at a time"):
        await executor.carry_out(Join("h2"), decided)
    assert "kubeadm join --config" not in world.hosts["h2"].ran
    assert world.api.below(SECRETS) == []


async def test_a_host_whose_api_server_is_not_ready_is_not_done() -> None:
    world = World(manifest())
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(tuple(world.hosts)), world.observed())
    world.api.failing["/readyz"] = ServerError("[-]etcd failed", code=500)
    with pytest.raises(StepFailed, match=r"its API server did not come about within 180 s: \[-\]etcd failed"):
        await executor.carry_out(Initialize("h1"), world.observed())
    assert ("h1", "waiting for its API server: [-]etcd failed") in world.reports


async def test_what_preflight_refuses_is_said_in_its_own_words() -> None:
    world = World(manifest())
    world.failures["h1"] = (
        "kubeadm init --config",
        "[preflight] Running\n\t[ERROR Port-6443]: Port 6443 is in use\n\t[ERROR Swap]: swap is on\n",
    )
    executor = Executor(tools_for(world))
    await executor.carry_out(Prepare(tuple(world.hosts)), world.observed())
    with pytest.raises(StepFailed) as failed:
        await executor.carry_out(Initialize("h1"), world.observed())
    assert (
        failed.value.cause == "kubeadm init failed: kubeadm's preflight refuses the host: Port-6443: Port 6443 is in use; Swap: swap is on"
    )


async def test_the_password_of_a_proxy_that_kubeadm_quotes_is_told_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(manifest())
    quoting = '[ERROR HTTPProxy]: Connection to "https://10.0.0.1" uses proxy "http://jane:hunter2@proxy:3128"'
    world.failures["h1"] = ("kubeadm init --config", quoting)
    tools = tools_for(world)
    await Executor(tools).carry_out(Prepare(tuple(world.hosts)), world.observed())
    with pytest.raises(StepFailed, match="http://proxy:3128"):
        await Executor(tools).carry_out(Initialize("h1"), world.observed())

    async def look(_host: FakeHost, _script: str, *, deadline: float) -> Outcome:
        return Outcome(int(deadline < 0), quoting.encode(), b"")

    monkeypatch.setattr(FakeHost, "look", look)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(kubeadm._tell(tools, world.hosts["h1"], "h1"))
        for _ in range(5):
            await asyncio.sleep(0)
        watching.cancel()
    assert "http://proxy:3128" in world.reports[-1][1]
    assert "hunter2" not in repr(world.reports)


async def test_secrets_are_in_no_report_and_no_repr() -> None:
    world = World(manifest())
    tools = tools_for(world)
    await install(world)
    provider = world.hosts["h1"].files[PROVIDERS].decode()
    assert "secret" in provider
    shown = f"{world.reports!r} {tools!r}"
    assert not any(line.strip() in shown for line in pki_files()["/etc/kubernetes/pki/ca.key"].decode().splitlines()[1:-1])
    assert provider.partition("secret: ")[2][:20] not in shown


async def test_a_token_lives_by_the_clock_of_the_api_server() -> None:
    world = World(manifest())
    world.hosts["h1"].files["/etc/kubernetes/manifests/kube-apiserver.yaml"] = b"api server"
    world.api.now = "2031-05-06T07:08:09Z"
    async with bootstrap_token(tools_for(world)) as token:
        (name,) = world.api.below(SECRETS)
        assert name.endswith(token.reveal()[:6])
        expires = base64.b64decode(world.api.objects[f"{SECRETS}/{name}"]["data"]["expiration"]).decode()
    assert expires == "2031-05-06T08:08:09Z"
    assert world.api.below(SECRETS) == []


@pytest.mark.parametrize("end", [ConnectionCut("h2", "the connection ended before the script did"), asyncio.CancelledError(), None])
async def test_a_token_stays_where_kubeadm_may_go_on_without_anybody(monkeypatch: pytest.MonkeyPatch, end: BaseException | None) -> None:
    """The connection to a host ends while it joins; quorate is interrupted; or kubeadm ends with an error of its own."""
    world = World(manifest())
    executor = Executor(tools_for(world))
    while not isinstance(step := next_step(world), Join):
        assert step is not None
        await executor.carry_out(step, world.observed())
    assert world.api.below(SECRETS) == []
    world.failures[step.host] = "kubeadm join --config", "it fails"
    change = FakeHost.change

    async def cut(self: FakeHost, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        outcome = await change(self, script, stdin=stdin, deadline=deadline)
        if end is not None and "kubeadm join --config" in script:
            raise end
        return outcome

    monkeypatch.setattr(FakeHost, "change", cut)
    with pytest.raises((StepFailed, asyncio.CancelledError)):
        await executor.carry_out(step, world.observed())
    assert len(world.api.below(SECRETS)) == (0 if end is None else 1)


@pytest.mark.parametrize("keep", [True, False])
async def test_a_firewall_that_is_to_be_kept_is_not_switched_off(keep: bool) -> None:
    world = World(manifest())
    observed = world.observed()
    cluster = replace(observed.cluster, options=RunOptions(keep_firewall=keep))
    await Executor(tools_for(world)).carry_out(Prepare(("h1",)), replace(observed, cluster=cluster))
    assert any("ufw disable" in script for script in world.hosts["h1"].scripts) is not keep
