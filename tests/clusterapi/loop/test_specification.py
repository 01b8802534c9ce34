"""A specification is worked out when it changes, not when a status is written, and the control plane that is answered is always the newest."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from quorate.clusterapi.api.defaults import default_kubeadm_control_plane
from quorate.clusterapi.api.validation import validate_create
from quorate.clusterapi.observe import specification
from quorate.clusterapi.observe.specification import Specifications
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.kubernetes.controller import Request
from quorate.simulation.engine.patches import merge_patch

if TYPE_CHECKING:
    from quorate.clusterapi.api.fields import FieldError


def stored(resource_version: int, *, uid: str = "1", replicas: int = 3, version: str = "1.34.4", observed: int = 0) -> KubeadmControlPlane:
    reference = {"apiGroup": "example.org", "kind": "DevMachineTemplate", "name": "small"}
    metadata = {"name": "demo", "namespace": "default", "uid": uid, "resourceVersion": str(resource_version)}
    spec = {"version": version, "replicas": replicas, "machineTemplate": {"spec": {"infrastructureRef": reference}}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"replicas": observed}}, KubeadmControlPlane)


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was validated."""
    seen: list[Any] = []

    def counted(obj: Any, gates: frozenset[str]) -> tuple[FieldError, ...]:
        seen.append(obj)
        return validate_create(obj, gates)

    monkeypatch.setattr(specification, "validate_create", counted)
    return seen


def test_a_written_status_is_seen_without_another_validation(validated: list[Any]) -> None:
    specifications = Specifications()
    first, _ = specifications.of(stored(1))
    second, problems = specifications.of(stored(2, observed=3))
    assert (second.metadata.resource_version, second.status.replicas, problems) == ("2", 3, ())
    assert second.spec is first.spec
    assert len(validated) == 1


@pytest.mark.parametrize("change", [{"replicas": 5}, {"version": "1.35.0"}, {"uid": "2", "replicas": 1}])
def test_whatever_is_answered_is_what_admission_would_have_stored(change: dict[str, Any]) -> None:
    specifications = Specifications()
    for resource_version, changes in enumerate([{}, {"observed": 1}, change, {**change, "observed": 2}, {}], start=1):
        item = stored(resource_version, **changes)
        kcp, _ = specifications.of(item)
        assert kcp == msgspec.convert(default_kubeadm_control_plane(msgspec.to_builtins(item)), KubeadmControlPlane)


def test_a_refused_specification_stays_refused_after_a_written_status() -> None:
    specifications = Specifications()
    _, problems = specifications.of(stored(1, replicas=2, version="banana"))
    assert any("version" in problem for problem in problems)
    assert specifications.of(stored(2, replicas=2, version="banana", observed=1))[1] == problems


def test_one_that_is_gone_is_worked_out_anew(validated: list[Any]) -> None:
    specifications = Specifications()
    specifications.of(stored(1))
    specifications.forget(Request("default", "demo"))
    specifications.of(stored(1))
    assert len(validated) == 2


def test_periods_that_no_clock_can_count_are_the_longest_that_are_published() -> None:
    """The format int32 keeps no API server from storing 10^15."""
    remediation = {"retryPeriodSeconds": 10**15, "minHealthyPeriodSeconds": 10**15}
    kcp = msgspec.convert(merge_patch(msgspec.to_builtins(stored(1)), {"spec": {"remediation": remediation}}), KubeadmControlPlane)
    policy = specification.desired(kcp, Cluster(metadata=kcp.metadata)).remediation
    assert policy.retry_period == policy.min_healthy_period == timedelta(seconds=2**31 - 1)


@pytest.mark.parametrize(
    ("local", "minor", "flags"),
    [
        ({}, (3, 6), ()),
        ({"imageTag": "3.5.26-0"}, (3, 5), ()),
        ({"extraArgs": [{"name": "experimental-max-learners", "value": "2"}]}, (3, 6), ("experimental-max-learners",)),
    ],
    ids=["kubeadm's own", "by its image tag", "with flags"],
)
def test_the_etcd_of_a_new_machine_is_known_before_it_is_made(
    local: dict[str, Any], minor: tuple[int, int], flags: tuple[str, ...]
) -> None:
    configuration = {"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"local": local}}}}}
    kcp = msgspec.convert(merge_patch(msgspec.to_builtins(stored(1, version="v1.34.4")), configuration), KubeadmControlPlane)
    asked = specification.desired(kcp, Cluster(metadata=kcp.metadata))
    assert (asked.etcd_minor, asked.etcd_flags) == (minor, flags)
