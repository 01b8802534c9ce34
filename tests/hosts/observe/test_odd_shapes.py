"""Values of every shape where others are expected, in what hosts and an API server say, through the real observation: it fails for none of them."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.observe.inspection import KUBELET_CONFIGURATION
from quorate.hosts.probe.probe import script
from quorate.hosts.render.provider_files import PATHS
from tests.hosts.observe.test_hostile_host import HOSTILE, everything_said, of_others
from tests.hosts.observe.world import CONFIG_MAPS, CORE_DNS, CORE_DNS_BUDGET, KUBE_PROXY, NODES, FolderHost, World, stand

MANY = "9" * 5000
HUGE = f"{'9' * 400}h"
TEXTS = ("", "x", "²", MANY, HUGE, "999999999999h", f"v1.2.3-{MANY}", "253402300799", "86399999999999", "-1", "?", '"', "'", '"\\ud800"')
FLAGS = tuple(f"--{name}={text}" for name in ("max-pods", "image-gc-high-threshold", "system-reserved", "v") for text in TEXTS)
ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    2.5,
    True,
    *TEXTS,
    [],
    [1],
    ["a"],
    [None],
    [{}],
    [[1]],
    [{"name": [1]}],
    {},
    {"a": 1},
    {"1": None, "b": 2},
    10**30,
)
CONFIGURATIONS = {"kubeadm-config": "ClusterConfiguration", "kubelet-config": "kubelet", "kube-proxy": "config.conf"}
KUBEADM = f"{CONFIG_MAPS}/kubeadm-config"
OBJECTS = (*(f"{CONFIG_MAPS}/{name}" for name in CONFIGURATIONS), CORE_DNS, CORE_DNS_BUDGET, KUBE_PROXY, f"{NODES}/cp-1")
PROVIDERS = """\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: one, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - kms: {apiVersion: v2, name: two, endpoint: "unix:///var/run/kms/a.sock"}
  - identity: {}
"""
PARTS = {
    "extraArgs": [{"name": "a", "value": "b"}],
    "extraEnvs": [{"name": "a", "value": "b"}],
    "extraVolumes": [{"name": "n", "hostPath": "/a", "mountPath": "/a"}],
}

Path = tuple[str | int, ...]


class Remembered(FolderHost):
    """A host that answers each script as it did the first time, and as `change` has it."""

    def __init__(self, well: FolderHost) -> None:
        self.name, self.folder, self.member = well.name, well.folder, well.member
        self.answers: dict[str, Outcome] = {}
        self.change: Callable[[str, Outcome], Outcome] = lambda _, truth: truth

    async def run(self, text: str, **how: Any) -> Outcome:
        if text not in self.answers:
            self.answers[text] = await super().run(text, **how)
        return self.change(text, self.answers[text])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = stand(tmp_path_factory.mktemp("odd"))
    made.machines = {name: Remembered(machine) for name, machine in made.machines.items()}
    return made


quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a document."""
    yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from paths(member, (*path, name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from paths(member, (*path, index))


def with_value(document: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return changed


def odd_documents(document: Any) -> st.SearchStrategy[Any]:
    return st.builds(lambda path, value: with_value(document, path, value), st.sampled_from(list(paths(document))), st.sampled_from(ODD))


@quick
@given(data=st.data())
async def test_objects_of_any_shape_are_observed(world: World, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(OBJECTS))
    stored = world.api_objects.objects[path]
    world.api_objects.objects[path] = data.draw(odd_documents(stored))
    try:
        assert everything_said(await world.cluster())
    finally:
        world.api_objects.objects[path] = stored


@quick
@given(data=st.data())
async def test_configurations_of_any_shape_are_observed(world: World, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(CONFIGURATIONS)))
    path, key = f"{CONFIG_MAPS}/{name}", CONFIGURATIONS[name]
    stored = world.api_objects.objects[path]
    document = yaml.safe_load(stored["data"][key])
    if name == "kubeadm-config":
        document |= dict.fromkeys(("apiServer", "controllerManager", "scheduler"), PARTS)
        document |= {"dns": {"imageRepository": "x"}, "proxy": {"disabled": True}, "certificateValidityPeriod": "1h"}
    world.api_objects.objects[path] = {**stored, "data": {key: yaml.safe_dump(data.draw(odd_documents(document)))}}
    try:
        assert everything_said(await world.cluster())
    finally:
        world.api_objects.objects[path] = stored


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("networking",), 1),
        (("proxy",), "x"),
        (("apiServer", "extraVolumes"), 1),
        (("etcd", "local", "extraEnvs"), ["a"]),
        (("scheduler", "extraEnvs"), [{"name": [1]}]),
        (("scheduler", "extraArgs"), {1: "a", "b": "c"}),
        (("certificateValidityPeriod",), HUGE),
    ],
)
async def test_a_configuration_that_cannot_be_read_is_said_to_be_so(world: World, path: Path, value: Any) -> None:
    stored = world.api_objects.objects[KUBEADM]
    document = with_value(yaml.safe_load(stored["data"]["ClusterConfiguration"]), path, value)
    world.api_objects.objects[KUBEADM] = {**stored, "data": {"ClusterConfiguration": yaml.safe_dump(document)}}
    try:
        drift = (await world.cluster()).configuration_drift
    finally:
        world.api_objects.objects[KUBEADM] = stored
    assert any("ClusterConfiguration: " in each for each in drift), drift


async def observed_beside(world: World, change: Callable[[str, Outcome], Outcome]) -> None:
    """The others are what they are without the change, and the one that it is about is observed too."""
    machine = world.machines[HOSTILE]
    assert isinstance(machine, Remembered)
    before = await world.cluster()
    machine.change = change
    try:
        cluster = await world.cluster()
    finally:
        machine.change = lambda _, truth: truth
    assert everything_said(cluster)
    assert of_others(cluster) == of_others(before)
    assert [host.name for host in cluster.hosts] == [host.name for host in before.hosts]


@quick
@given(key=st.integers(0, 500), field=st.integers(0, 5), text=st.sampled_from((*TEXTS, *FLAGS)) | st.text(max_size=5))
@example(key=-1, field=0, text=f"--max-pods={MANY}")
async def test_answers_of_any_shape_are_observed(world: World, key: int, field: int, text: str) -> None:
    def change(asked: str, truth: Outcome) -> Outcome:
        if asked != script():
            return truth
        lines = [line.split("\t") for line in truth.stdout.decode().split("\n")[:-1]]
        line = lines[key % len(lines)] if key >= 0 else next(each for each in lines if each[0] == "kubelet_flags")
        if len(line) > 2:
            line[2 + field % (len(line) - 2)] = text.replace("\t", " ").replace("\n", " ")
        return Outcome(0, "".join("\t".join(each) + "\n" for each in lines).encode(errors="replace"), b"")

    await observed_beside(world, change)


@quick
@given(
    document=odd_documents(yaml.safe_load(PROVIDERS)) | odd_documents({"maxPods": 1, "evictionHard": {"a": "b"}, "tlsCipherSuites": ["a"]})
)
@example(document=b"\xff")
async def test_files_of_any_shape_are_observed(world: World, document: Any) -> None:
    content = document if isinstance(document, bytes) else yaml.safe_dump(document).encode()

    def change(asked: str, truth: Outcome) -> Outcome:
        told = truth.stdout
        for path in (KUBELET_CONFIGURATION, *PATHS):
            line = re.escape(f"content {path}".encode())
            told = re.sub(rb"(?m)^(" + line + rb")( .*)?$", rb"\1 =" + base64.b64encode(content), told)
        return truth if asked.endswith(script()) else Outcome(0, told, b"")

    await observed_beside(world, change)
