"""No rollout that nobody asked for: objects as upstream's provider stored them, for specs of several releases, and every way of writing the same."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.api.defaults import default_kubeadm_control_plane
from quorate.clusterapi.observe import machines
from quorate.clusterapi.observe.observation import Outdated
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.kubeadm.config import is_join

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECORDED = Path(__file__).parent / "corpus" / "recorded.yaml"
METADATA = {"name": "cp", "namespace": "default"}

Object = dict[str, Any]


@lru_cache(maxsize=1)
def corpus() -> list[Object]:
    """Everything recorded, one entry a control plane."""
    found: list[Object] = yaml.load(RECORDED.read_bytes(), Loader=yaml.CSafeLoader)
    return found


def outdated(spec: Object, version: str, config: Object) -> tuple[Outdated, ...]:
    """In which ways a Machine with this KubeadmConfig differs from what a control plane with this spec wants."""
    stored = default_kubeadm_control_plane({"metadata": dict(METADATA), "spec": copy.deepcopy(spec)})
    machine = msgspec.convert({"metadata": dict(METADATA), "spec": {"version": version, "clusterName": "c"}}, Machine)
    return machines.outdated(
        msgspec.convert(stored, KubeadmControlPlane),
        machine,
        msgspec.convert({"metadata": dict(METADATA), "spec": config}, KubeadmConfig),
        None,
        NOON,
    )


PAIRS = [
    pytest.param(entry["spec"], machine, id=f"{entry['name']}-{'join' if is_join(machine['config']) else 'init'}-{number}")
    for entry in corpus()
    for number, machine in enumerate(entry["machines"])
]


@pytest.mark.parametrize(("spec", "machine"), PAIRS)
def test_what_upstream_stored_is_up_to_date(spec: Object, machine: Object) -> None:
    assert outdated(spec, machine["version"], machine["config"]) == ()


def test_the_corpus_holds_machines_that_initialized_and_machines_that_joined() -> None:
    kinds = {is_join(machine["config"]) for entry in corpus() for machine in entry["machines"]}
    assert kinds == {True, False}


# The same said differently: what older releases wrote, or newer ones leave out.

FORMER_DEFAULTS = (
    ("format",),
    ("initConfiguration", "nodeRegistration", "imagePullPolicy"),
    ("joinConfiguration", "nodeRegistration", "imagePullPolicy"),
)
FILLED_IN = (  # by the bootstrap provider, or by what changes in the running cluster
    (("clusterConfiguration", "controlPlaneEndpoint"), "10.0.0.1:6443"),
    (("clusterConfiguration", "dns"), {"imageTag": "v1.9.3"}),
    (("joinConfiguration", "discovery"), {"bootstrapToken": {"token": "abcdef.0123456789abcdef", "apiServerEndpoint": "10.0.0.1:6443"}}),
)
EMPTY_LISTS = ("files", "users", "mounts", "bootCommands", "preKubeadmCommands", "postKubeadmCommands")


def without_former_defaults(config: Object) -> None:
    """As a release writes it whose webhooks do not fill these in."""
    for *parents, last in FORMER_DEFAULTS:
        inner: Any = config
        for name in parents:
            inner = inner.get(name) or {}
        inner.pop(last, None)


def with_former_defaults(config: Object) -> None:
    """As a release wrote it whose webhooks did."""
    config["format"] = config.get("format") or "cloud-config"
    for section in ("initConfiguration", "joinConfiguration"):
        registration = (config.get(section) or {}).get("nodeRegistration")
        if registration:
            registration["imagePullPolicy"] = registration.get("imagePullPolicy") or "IfNotPresent"


def filled_in(config: Object) -> None:
    """As the bootstrap provider leaves it."""
    for (section, name), value in FILLED_IN:
        if section in config and (section != "joinConfiguration" or is_join(config)):
            config[section] = {**(config[section] or {}), name: value}


def with_empty_lists(config: Object) -> None:
    """As Go writes slices that were made and never filled."""
    for name in EMPTY_LISTS:
        config.setdefault(name, [])


def with_nulls(config: Object) -> None:
    """As YAML templates leave what they have nothing for."""
    for name in EMPTY_LISTS:
        if not config.get(name):
            config[name] = None


def with_empty_objects(config: Object) -> None:
    """As Go wrote structs without omitzero, up to v1.11."""
    cluster = config.get("clusterConfiguration")
    if cluster is not None:
        for name in ("apiServer", "controllerManager", "scheduler", "etcd", "networking", "dns"):
            if not (name == "etcd" and cluster.get("etcd")):
                cluster[name] = cluster.get(name) or {}


REWRITINGS = (without_former_defaults, with_former_defaults, filled_in, with_empty_lists, with_nulls, with_empty_objects)


@given(st.sampled_from(range(len(PAIRS))), st.permutations(REWRITINGS), st.integers(1, len(REWRITINGS)))
def test_the_same_said_differently_is_up_to_date(index: int, rewritings: list[Any], number: int) -> None:
    spec, machine = PAIRS[index].values
    assert isinstance(spec, dict)
    assert isinstance(machine, dict)
    config = copy.deepcopy(machine["config"])
    for rewrite in rewritings[:number]:
        rewrite(config)
    assert outdated(spec, machine["version"], config) == ()


@pytest.mark.parametrize(("spec", "machine"), PAIRS)
def test_a_real_change_is_seen_in_each_of_them(spec: Object, machine: Object) -> None:
    changed = copy.deepcopy(spec)
    section = changed.setdefault("kubeadmConfigSpec", {})
    section["preKubeadmCommands"] = [*(section.get("preKubeadmCommands") or []), "echo changed"]
    assert [way.message for way in outdated(changed, machine["version"], machine["config"])] == ["KubeadmConfig is not up-to-date"]
    assert outdated({**spec, "version": "v1.35.4"}, machine["version"], machine["config"])
