"""Keys switched on, off and exchanged by the steps themselves, cut at any call: every API server reads every Secret all the time, and no key is lost."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import yaml

from quorate.core.health import Absent
from quorate.core.hosts.encryption import IDENTITY, PLAIN, SECRETS, Change, Configuration, Desired, Encryption, disagreement, next_change
from quorate.core.hosts.steps import ChangeEncryption, Join, Reconfigure, RewriteSecrets, Step, UpdateConfiguration
from quorate.hosts.act.component_manifests import CONFIGURATION
from quorate.hosts.act.encryption import _nothing_needs
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.encryption import encryption
from quorate.hosts.observe.inspection import Inspection
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.render.provider_files import ENCRYPTED, FLAG, PATHS, RECORD, generated, is_stored_with, of_manifest, read, written
from quorate.kubernetes.transport import Request
from tests.hosts.act.api import Json
from tests.hosts.act.running import RunningApi, RunningHost, manifest, tools
from tests.hosts.act.test_settings import CONFIG_MAPS, configured
from tests.hosts.act.world import World

OFF = manifest()
ON = manifest(features__encryptionProviders={"enable": True})
GENERATED = PATHS[0]
CONTROL_PLANES = ("h1", "h2", "h3")
REGISTRY = "/registry"
SECRETS_THERE = 3


@dataclass
class ServingHost(RunningHost):
    """A control plane host with an API server: the file that its manifest names, and what it runs with."""

    flag: str = ""
    places: tuple[str, ...] = ()  # flags that say where it has everything in etcd
    runs: Configuration = PLAIN

    def probed(self) -> bytes:
        flags = [*self.places, *([f"--{FLAG}={self.flag}"] if self.flag else [])]
        pod = "\t".join(("manifest.kube-apiserver.yaml", "=", "0" * 64, "registry.k8s.io/kube-apiserver:v1.34.4", *flags))
        return f"manifests\t=\t1\n{pod}\n".encode() + super().probed()

    def _run(self, script: str, stdin: bytes, *, halfway: bool) -> Outcome:
        for paths in re.findall(r"^rm -f -- (/etc/kubernetes/encryption-providers/.*)$", script, re.MULTILINE):
            for path in paths.split():
                self.files.pop(path, None)
        return super()._run(script, stdin, halfway=halfway)

    def _generate(self, script: str) -> bytes:
        if "control-plane apiserver" in script:
            *_, document = yaml.safe_load_all(self.files[CONFIGURATION])
            flags = {each["name"]: each["value"] for each in document["apiServer"]["extraArgs"]}
            self.flag = flags.get(FLAG, "")
            self.places = tuple(f"--{name}={value}" for name, value in flags.items() if name.startswith("etcd-"))
            now = read(self.files[self.flag]).configuration if self.flag else PLAIN
            if now != self.runs:
                self.runs = now
                self.drifting.add("kube-apiserver")
        return super()._generate(script)


@dataclass
class StoringApi(RunningApi):
    """An API in which a Secret that is written is stored as the API servers store it, below `registry`."""

    world: Any = None
    registry: str = REGISTRY
    gone: dict[int, set[int]] = field(default_factory=dict)  # by the number of a list, from 1 on: Secrets that are not in it
    lists: int = 0

    def _answer(self, request: Request, path: str) -> Json:
        if path == "/api/v1/secrets":
            self.lists += 1
            there = [number for number in range(SECRETS_THERE) if number not in self.gone.get(self.lists, ())]
            items = [{"metadata": {"namespace": "default", "name": str(number), "uid": str(number)}} for number in there]
            return {"metadata": {"resourceVersion": "1"}, "items": items}
        if "/secrets/" in path and request.method == "PATCH":
            number = int(path.rpartition("/")[2])
            self.world.stored[key_of(self.world, number)] = value(serving(self.world, "h1").runs.secrets[0])
            return {"metadata": {"namespace": "default", "name": str(number), "uid": str(number)}}
        return super()._answer(request, path)


def key_of(world: World, number: int) -> bytes:
    """Where etcd has a Secret."""
    assert isinstance(world.api, StoringApi)
    return f"{world.api.registry}/secrets/default/{number}".encode()


def value(provider: str) -> bytes:
    """A Secret as etcd has it."""
    if provider == IDENTITY:
        return b"k8s\0plain"
    kind, name, _ = provider.split(":")
    return ENCRYPTED + f"{kind}:v1:{name}:".encode() + b"\x8f\x01"


def serving(world: World, name: str) -> ServingHost:
    host = world.hosts[name]
    assert isinstance(host, ServingHost)
    return host


def made(manifest_: Manifest = OFF, *, prefix: str = "") -> World:
    """With a prefix, the cluster has it, and no manifest says so."""
    world = configured(manifest_)
    if prefix:
        stored = world.api.objects[f"{CONFIG_MAPS}/kubeadm-config"]["data"]
        document = yaml.safe_load(stored["ClusterConfiguration"])
        document["apiServer"]["extraArgs"].append({"name": "etcd-prefix", "value": prefix})
        stored["ClusterConfiguration"] = yaml.safe_dump(document)
    for name in CONTROL_PLANES:
        host = world.hosts[name]
        places = (f"--etcd-prefix={prefix}",) if prefix else ()
        world.hosts[name] = ServingHost(**{each: getattr(host, each) for each in RunningHost.__dataclass_fields__}, places=places)
    api = StoringApi(**{each: getattr(world.api, each) for each in RunningApi.__dataclass_fields__}, world=world)
    world.api = api
    api.registry = f"/{prefix.strip('/')}" if prefix else REGISTRY
    world.stored = {key_of(world, number): value(IDENTITY) for number in range(SECRETS_THERE)}
    return world


def seen(world: World, name: str) -> Encryption:
    """As it is observed."""
    files = serving(world, name).files
    inspection = Inspection(contents={path: files.get(path, Absent()) for path in PATHS})
    facts = world.observed().facts[name]
    assert isinstance(facts, HostFacts)
    found = encryption(world.manifest, facts, inspection)
    assert isinstance(found, Encryption)
    return replace(found, in_use=serving(world, name).runs == found.configuration)


def recorded(world: World) -> str:
    record = world.api.objects.get(f"{CONFIG_MAPS}/{RECORD}", {"data": {}})
    return str(record["data"].get(SECRETS, ""))


def next_step(world: World, *, rotate: bool) -> Step | None:
    servers = {name: seen(world, name) for name in CONTROL_PLANES}
    assert disagreement(servers) == ""
    change = next_change(servers, Desired(of_manifest(world.manifest), recorded(world)), rotate=rotate)
    if isinstance(change, Change):
        return ChangeEncryption(change.host, change.configuration)
    return None if change is None else RewriteSecrets(change.provider)


def all_is_read(world: World) -> bool:
    return all(
        any(is_stored_with(stored, provider) for provider in serving(world, name).runs.secrets)
        for name in CONTROL_PLANES
        for stored in world.stored.values()
    )


async def settled(world: World, wish: Manifest, *, rotate: bool = False) -> list[str]:
    """The steps until nothing more is to be done, while clients read and write through every API server."""
    world.manifest = wish
    done: list[str] = []
    while (step := next_step(world, rotate=rotate)) is not None:
        assert len(done) < 30, done
        try:
            await executor(world).carry_out(step, world.observed())
        except StepFailed as failure:
            if "the connection ended" not in failure.cause:
                raise
        done.append(str(step))
        rotate = rotate and not (isinstance(step, ChangeEncryption) and step.exchanges_keys)
        assert all_is_read(world), done
        for number, name in enumerate(CONTROL_PLANES):  # each writes, and the others have to read that
            key = key_of(world, number)
            before, world.stored[key] = world.stored[key], value(serving(world, name).runs.secrets[0])
            assert all_is_read(world), done
            world.stored[key] = before if recorded(world) else world.stored[key]
    return done


def executor(world: World) -> Executor:
    return Executor(replace(tools(world), random_bytes=os.urandom))


def keys(world: World) -> set[str]:
    return {key for name in CONTROL_PLANES for key in seen(world, name).configuration.keys}


async def test_on_off_on_and_rotated_every_secret_is_read_by_everybody_all_the_time() -> None:
    world = made()
    await settled(world, ON)
    first = keys(world)
    assert len(first) == 1
    assert all(is_stored_with(stored, *first) for stored in world.stored.values())
    await settled(world, ON, rotate=True)
    second = keys(world)
    assert len(second - first) == len(second) == 1
    assert all(is_stored_with(stored, *second) for stored in world.stored.values())
    await settled(world, OFF)
    assert keys(world) == set()
    assert all(is_stored_with(stored, IDENTITY) for stored in world.stored.values())
    assert not [path for name in CONTROL_PLANES for path in world.hosts[name].files if path in PATHS]
    await settled(world, ON)
    assert await settled(world, ON) == []


@pytest.mark.parametrize("how", ["before", "after"])
async def test_cut_at_any_call_the_next_run_goes_on_and_nothing_is_lost(how: str) -> None:
    number = 0
    while True:
        number += 23
        world = made()
        world.calls, world.cut = 0, (number, how)
        for wish, rotate in ((ON, False), (ON, True), (OFF, False)):
            await settled(world, wish, rotate=rotate)
        assert all(is_stored_with(stored, IDENTITY) for stored in world.stored.values())
        if world.calls < number:
            return


@pytest.mark.parametrize("prefix", ["", "/k8s", "k8s/"])
async def test_a_key_stays_that_something_is_stored_with(prefix: str) -> None:
    world = made(prefix=prefix)
    await settled(world, ON)
    (key,) = keys(world)
    both, plain = (Configuration.made({SECRETS: each}) for each in ((IDENTITY, key), (IDENTITY,)))
    for name in CONTROL_PLANES:
        await executor(world).carry_out(ChangeEncryption(name, both), world.observed())
    what = rf"3 objects are stored with secretbox:quorate-.*, which would go: {key_of(world, 0).decode()}"
    with pytest.raises(StepFailed, match=what):
        await executor(world).carry_out(ChangeEncryption("h1", plain), world.observed())
    assert serving(world, "h1").runs == both
    assert GENERATED in world.hosts["h1"].files


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (("--etcd-prefix=/k8s",), "h1 has everything below /k8s in etcd, and h2 below /registry"),
        (("--etcd-servers-overrides=/secrets#https://192.0.2.9:2379",), "h1 has some of it in other servers"),
        (("--etcd_prefix=/k8s",), "h1 has everything below /k8s in etcd, and h2 below /registry"),
        (("--etcd-prefix",), "h1 has everything below a prefix that cannot be read"),
    ],
)
async def test_no_key_goes_while_it_is_not_known_where_everything_is_stored(places: tuple[str, ...], said: str) -> None:
    world = made()
    await settled(world, ON)
    serving(world, "h1").places = places
    for step in (ChangeEncryption("h1", PLAIN), RewriteSecrets(*keys(world))):
        with pytest.raises(StepFailed, match=said):
            await executor(world).carry_out(step, world.observed())
    assert GENERATED in world.hosts["h1"].files
    assert len(keys(world)) == 1


async def test_a_key_stays_that_endpoints_are_stored_with_which_are_kept_below_services() -> None:
    world = made()
    key, _ = generated(os.urandom)
    before = Configuration.made({"endpoints": (key, IDENTITY), "services": (key, IDENTITY)})
    after = Configuration.made({"services": (key, IDENTITY)})
    world.stored[b"/registry/services/specs/default/kubernetes"] = value(key)
    await _nothing_needs(tools(world), world.observed(), before, after)
    world.stored[b"/registry/services/endpoints/default/kubernetes"] = value(key)
    with pytest.raises(StepFailed, match=r"1 objects are stored with .*, which would go: /registry/services/endpoints/default/kubernetes"):
        await _nothing_needs(tools(world), world.observed(), before, after)


async def test_what_is_asked_of_etcd_has_every_secret_that_the_api_lists() -> None:
    world = made()
    await settled(world, ON)
    (key,) = keys(world)
    world.stored = {name.replace(b"/registry", b"/elsewhere"): stored for name, stored in world.stored.items()}
    assert isinstance(world.api, StoringApi)
    world.api.registry = "/elsewhere"
    for step in (ChangeEncryption("h1", PLAIN), RewriteSecrets(key)):
        with pytest.raises(
            StepFailed, match="etcd does not have 3 Secrets below /registry that the API lists: default/0, default/1, default/2"
        ):
            await executor(world).carry_out(step, world.observed())


async def test_a_secret_that_is_deleted_while_etcd_is_asked_is_not_missed() -> None:
    world = made()
    await settled(world, ON)
    (key,) = keys(world)
    assert isinstance(world.api, StoringApi)
    for name in CONTROL_PLANES:
        await executor(world).carry_out(ChangeEncryption(name, Configuration.made({SECRETS: (IDENTITY, key)})), world.observed())
    world.stored = {key_of(world, number): value(IDENTITY) for number in (0, 1)}
    world.api.gone = {world.api.lists + 2: {2}}  # the list that is read after etcd
    await executor(world).carry_out(ChangeEncryption("h1", PLAIN), world.observed())
    with pytest.raises(StepFailed, match=r"etcd does not have 1 Secret below /registry that the API lists: default/2"):
        await executor(world).carry_out(ChangeEncryption("h2", PLAIN), world.observed())


async def test_secrets_that_somebody_stores_otherwise_are_counted_and_named() -> None:
    world = made()
    await settled(world, ON)
    world.stored[b"/registry/secrets/elsewhere/one"] = value(IDENTITY)
    with pytest.raises(StepFailed, match=r"1 of 4 Secrets are still not stored with key .*: /registry/secrets/elsewhere/one"):
        await executor(world).carry_out(RewriteSecrets(*keys(world)), world.observed())


async def test_no_key_is_made_while_a_host_that_cannot_be_asked_may_have_one() -> None:
    world = made(ON)
    step = next_step(world, rotate=False)
    assert isinstance(step, ChangeEncryption)
    world.unreachable = {"h3"}
    with pytest.raises(StepFailed, match="no answer"):
        await executor(world).carry_out(step, world.observed())
    world.unreachable = set()
    key, entry = generated(bytes)
    file = written(Configuration.made({SECRETS: (key, IDENTITY)}), {key: entry}).reveal().encode()
    world.hosts["h3"].files[GENERATED] = file
    with pytest.raises(StepFailed, match="no key is made, since a host has key secretbox:quorate-00000000"):
        await executor(world).carry_out(step, world.observed())
    await settled(world, ON)
    assert keys(world) == {key}


async def test_settings_and_joins_bring_the_providers_that_are_there_and_never_new_ones() -> None:
    world = made()
    await settled(world, ON)
    content = world.hosts["h1"].files[GENERATED]
    world.manifest = OFF  # switched off a moment ago: nothing has been written anew yet
    await executor(world).carry_out(Reconfigure("h2"), world.observed())
    assert (serving(world, "h2").flag, world.hosts["h2"].files[GENERATED]) == (GENERATED, content)
    await executor(world).carry_out(UpdateConfiguration(), world.observed())
    told = world.api.objects[f"{CONFIG_MAPS}/kubeadm-config"]["data"]["ClusterConfiguration"]
    assert f"name: {FLAG}\n" in told
    del world.hosts["h3"].files[GENERATED]
    with pytest.raises(StepFailed):
        await executor(world).carry_out(Join("h3"), world.observed())  # it has joined: kubeadm is not asked again
    placed = re.findall(r"printf %s '([^']*)' \| place /etc/kubernetes/encryption-providers", "\n".join(world.hosts["h3"].scripts))
    assert base64.b64decode(placed[-1]) == content


async def test_a_file_that_is_not_the_one_that_was_read_is_not_written_over() -> None:
    world = made(ON)
    await settled(world, ON)
    script = next(script for script in world.hosts["h1"].scripts if "is not the file that it was" in script)
    assert script.index("is not the file that it was") < script.index("place() {")


def custom(resource: str) -> Manifest:
    """A configuration of the user's that stores this resource, or these, with one key."""
    key = {"name": "key1", "secret": base64.b64encode(b"a" * 32).decode()}
    resources = [{"resources": [resource], "providers": [{"aescbc": {"keys": [key]}}, {"identity": {}}]}]
    text = yaml.safe_dump({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources})
    return manifest(features__encryptionProviders={"enable": True, "customEncryptionConfiguration": text})


@pytest.mark.parametrize("stored", ["configmaps/default/one", "rbac.authorization.k8s.io/roles/default/one"])
async def test_a_key_stays_for_each_resource_of_which_something_is_stored_with_it(stored: str) -> None:
    """The user's own configuration is narrowed from all resources to Secrets, for which the key stays."""
    world = made()
    await settled(world, custom("*.*"))
    (key,) = keys(world)
    world.stored[f"{REGISTRY}/{stored}".encode()] = value(key)
    with pytest.raises(StepFailed, match=f"1 objects are stored with aescbc:key1, which would go: {REGISTRY}/{stored}"):
        await settled(world, custom("secrets"))
    del world.stored[f"{REGISTRY}/{stored}".encode()]
    await settled(world, custom("secrets"))
    assert keys(world) == {key}


async def test_a_key_stays_that_something_is_stored_with_beside_a_file_that_no_flag_names() -> None:
    """Which says of Secrets something else than the file that is used."""
    world = made()
    await settled(world, ON)
    (used,) = keys(world)
    for name in CONTROL_PLANES:
        await executor(world).carry_out(ChangeEncryption(name, Configuration.made({SECRETS: (IDENTITY, used)})), world.observed())
    other, entry = generated(bytes)
    world.hosts["h1"].files[PATHS[1]] = written(Configuration.made({SECRETS: (other, IDENTITY)}), {other: entry}).reveal().encode()
    with pytest.raises(StepFailed, match="which would go"):
        await executor(world).carry_out(ChangeEncryption("h1", PLAIN), world.observed())
    assert used in serving(world, "h1").runs.keys
