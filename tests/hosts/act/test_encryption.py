"""Keys switched on, off and exchanged by the steps themselves, cut at any call: every API server reads every Secret all the time, and no key is lost."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from quorate.core.health import Absent
from quorate.core.hosts.encryption import IDENTITY, PLAIN, SECRETS, Change, Configuration, Desired, Encryption, disagreement, next_change
from quorate.core.hosts.steps import ChangeEncryption, Join, Reconfigure, RewriteSecrets, Step, UpdateConfiguration
from quorate.hosts.act.component_manifests import CONFIGURATION
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.encryption import encryption
from quorate.hosts.observe.inspection import Inspection
from quorate.hosts.probe.facts import HostFacts, StaticPod
from quorate.hosts.render.provider_files import ENCRYPTED, FLAG, PATHS, RECORD, generated, is_stored_with, of_manifest, read, written
from quorate.kubernetes.transport import Request
from tests.hosts.act.api import Json
from tests.hosts.act.running import RunningApi, RunningHost, manifest, tools
from tests.hosts.act.test_settings import CONFIG_MAPS, configured
from tests.hosts.act.world import Observed, World

OFF = manifest()
ON = manifest(features__encryptionProviders={"enable": True})
GENERATED = PATHS[0]
CONTROL_PLANES = ("h1", "h2", "h3")
NAMES = tuple(f"/registry/secrets/default/{number}".encode() for number in range(3))


@dataclass
class ServingHost(RunningHost):
    """A control plane host with an API server: the file that its manifest names, and what it runs with."""

    flag: str = ""
    runs: Configuration = PLAIN

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
            now = read(self.files[self.flag]).configuration if self.flag else PLAIN
            if now != self.runs:
                self.runs = now
                self.drifting.add("kube-apiserver")
        return super()._generate(script)


@dataclass
class StoringApi(RunningApi):
    """An API in which a Secret that is written is stored as the API servers store it."""

    world: Any = None

    def _answer(self, request: Request, path: str) -> Json:
        if path == "/api/v1/secrets":
            items = [{"metadata": {"namespace": "default", "name": str(number), "uid": str(number)}} for number in range(len(NAMES))]
            return {"metadata": {"resourceVersion": "1"}, "items": items}
        if "/secrets/" in path and request.method == "PATCH":
            number = int(path.rpartition("/")[2])
            self.world.stored[NAMES[number]] = value(serving(self.world, "h1").runs.secrets[0])
            return {"metadata": {"namespace": "default", "name": str(number), "uid": str(number)}}
        return super()._answer(request, path)


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


def made(manifest_: Manifest = OFF) -> World:
    world = configured(manifest_)
    for name in CONTROL_PLANES:
        host = world.hosts[name]
        world.hosts[name] = ServingHost(**{field: getattr(host, field) for field in RunningHost.__dataclass_fields__})
    api = StoringApi(**{field: getattr(world.api, field) for field in RunningApi.__dataclass_fields__}, world=world)
    world.api = api
    world.stored = dict.fromkeys(NAMES, value(IDENTITY))
    return world


def seen(world: World, name: str) -> Encryption:
    """As it is observed."""
    files = serving(world, name).files
    inspection = Inspection(contents={path: files.get(path, Absent()) for path in PATHS})
    facts = observed(world).facts[name]
    assert isinstance(facts, HostFacts)
    found = encryption(world.manifest, facts, inspection)
    assert isinstance(found, Encryption)
    return replace(found, in_use=serving(world, name).runs == found.configuration)


def observed(world: World) -> Observed:
    found = world.observed()
    facts = dict(found.facts)
    for name in CONTROL_PLANES:
        each = facts[name]
        assert isinstance(each, HostFacts)
        facts[name] = replace(each, manifests={"kube-apiserver.yaml": StaticPod("", (), tuple(_flags(world, name)))})
    return replace(found, facts=facts)


def _flags(world: World, name: str) -> Iterator[str]:
    if flag := serving(world, name).flag:
        yield f"--{FLAG}={flag}"


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
            await executor(world).carry_out(step, observed(world))
        except StepFailed as failure:
            if "the connection ended" not in failure.cause:
                raise
        done.append(str(step))
        rotate = rotate and not (isinstance(step, ChangeEncryption) and step.exchanges_keys)
        assert all_is_read(world), done
        for name, key in zip(CONTROL_PLANES, NAMES, strict=True):  # each writes, and the others have to read that
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


async def test_a_key_stays_that_something_is_stored_with() -> None:
    world = made()
    await settled(world, ON)
    (key,) = keys(world)
    both, plain = (Configuration.made({SECRETS: each}) for each in ((IDENTITY, key), (IDENTITY,)))
    for name in CONTROL_PLANES:
        await executor(world).carry_out(ChangeEncryption(name, both), observed(world))
    with pytest.raises(StepFailed, match=r"3 objects are stored with secretbox:quorate-.*, which would go: /registry/secrets/default/0"):
        await executor(world).carry_out(ChangeEncryption("h1", plain), observed(world))
    assert serving(world, "h1").runs == both
    assert GENERATED in world.hosts["h1"].files


async def test_secrets_that_somebody_stores_otherwise_are_counted_and_named() -> None:
    world = made()
    await settled(world, ON)
    world.stored[b"/registry/secrets/elsewhere/one"] = value(IDENTITY)
    with pytest.raises(StepFailed, match=r"1 of 4 Secrets are still stored otherwise than with key .*: /registry/secrets/elsewhere/one"):
        await executor(world).carry_out(RewriteSecrets(*keys(world)), observed(world))


async def test_no_key_is_made_while_a_host_that_cannot_be_asked_may_have_one() -> None:
    world = made(ON)
    step = next_step(world, rotate=False)
    assert isinstance(step, ChangeEncryption)
    world.unreachable = {"h3"}
    with pytest.raises(StepFailed, match="no answer"):
        await executor(world).carry_out(step, observed(world))
    world.unreachable = set()
    key, entry = generated(bytes)
    file = written(Configuration.made({SECRETS: (key, IDENTITY)}), {key: entry}).reveal().encode()
    world.hosts["h3"].files[GENERATED] = file
    with pytest.raises(StepFailed, match="no key is made, since a host has key secretbox:quorate-00000000"):
        await executor(world).carry_out(step, observed(world))
    await settled(world, ON)
    assert keys(world) == {key}


async def test_settings_and_joins_bring_the_providers_that_are_there_and_never_new_ones() -> None:
    world = made()
    await settled(world, ON)
    content = world.hosts["h1"].files[GENERATED]
    world.manifest = OFF  # switched off a moment ago: nothing has been written anew yet
    await executor(world).carry_out(Reconfigure("h2"), observed(world))
    assert (serving(world, "h2").flag, world.hosts["h2"].files[GENERATED]) == (GENERATED, content)
    await executor(world).carry_out(UpdateConfiguration(), observed(world))
    told = world.api.objects[f"{CONFIG_MAPS}/kubeadm-config"]["data"]["ClusterConfiguration"]
    assert f"name: {FLAG}\n" in told
    del world.hosts["h3"].files[GENERATED]
    with pytest.raises(StepFailed):
        await executor(world).carry_out(Join("h3"), observed(world))  # it has joined: kubeadm is not asked again
    placed = re.findall(r"printf %s '([^']*)' \| place /etc/kubernetes/encryption-providers", "\n".join(world.hosts["h3"].scripts))
    assert base64.b64decode(placed[-1]) == content


async def test_a_file_that_is_not_the_one_that_was_read_is_not_written_over() -> None:
    world = made(ON)
    await settled(world, ON)
    script = next(script for script in world.hosts["h1"].scripts if "is not the file that it was" in script)
    assert script.index("is not the file that it was") < script.index("place() {")
