"""Defaulting: what is filled in, what is left alone, and that doing it twice is doing it once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.api.defaults import apply_previous_kubeadm_config_defaults, default_kubeadm_control_plane

TEXT = st.text("abv1.", max_size=5)  # plain letters: building the table of all of Unicode takes a second
SCALARS = st.none() | st.booleans() | st.integers() | TEXT
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=10)
ROLLOUT = JSON | st.fixed_dictionaries(
    {}, optional={"before": JSON, "strategy": JSON | st.fixed_dictionaries({}, optional={"type": JSON, "rollingUpdate": JSON})}
)
CONTROL_PLANES = st.fixed_dictionaries(
    {}, optional={"spec": JSON | st.fixed_dictionaries({}, optional={"replicas": JSON, "version": JSON, "rollout": ROLLOUT})}
)


def test_everything_that_has_a_default_gets_it() -> None:
    assert default_kubeadm_control_plane({"spec": {"version": "1.34.4"}})["spec"] == {
        "replicas": 1,
        "version": "v1.34.4",
        "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
    }


def test_what_is_set_stays(kubeadm_control_plane: Any) -> None:
    given_ = kubeadm_control_plane(replicas=5, rollout={"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}})
    assert default_kubeadm_control_plane(given_) == given_


def test_zero_replicas_is_a_value_for_validation_to_refuse(kubeadm_control_plane: Any) -> None:
    assert default_kubeadm_control_plane(kubeadm_control_plane(replicas=0))["spec"]["replicas"] == 0


def test_the_type_of_the_strategy_is_overwritten(kubeadm_control_plane: Any) -> None:
    result = default_kubeadm_control_plane(kubeadm_control_plane(rollout={"strategy": {"type": "Recreate"}}))
    assert result["spec"]["rollout"]["strategy"]["type"] == "RollingUpdate"


def test_null_counts_as_not_set() -> None:
    result = default_kubeadm_control_plane({"spec": {"replicas": None, "version": "v1.34.4", "rollout": None}})
    assert result["spec"]["replicas"] == 1
    assert result["spec"]["rollout"]["strategy"]["rollingUpdate"] == {"maxSurge": 1}


@given(CONTROL_PLANES)
def test_defaulting_is_idempotent_and_leaves_its_argument_alone(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    once = default_kubeadm_control_plane(obj)
    assert default_kubeadm_control_plane(once) == once
    assert obj == before


def test_the_defaults_of_before_v1_11_are_known_for_comparison() -> None:
    credentials = {"joinConfiguration": {"discovery": {"file": {"kubeConfig": {"user": {"exec": {"command": "a"}}}}}}}
    result = apply_previous_kubeadm_config_defaults(credentials)
    assert result["format"] == "cloud-config"
    assert result["initConfiguration"]["nodeRegistration"] == {"imagePullPolicy": "IfNotPresent"}
    assert result["joinConfiguration"]["nodeRegistration"] == {"imagePullPolicy": "IfNotPresent"}
    user = result["joinConfiguration"]["discovery"]["file"]["kubeConfig"]["user"]
    assert user["exec"] == {"command": "a", "apiVersion": "client.authentication.k8s.io/v1"}


@pytest.mark.parametrize("spec", [{"format": "ignition"}, {"initConfiguration": {"nodeRegistration": {"imagePullPolicy": "Never"}}}])
def test_the_defaults_of_before_v1_11_do_not_replace_a_value(spec: dict[str, Any]) -> None:
    result = apply_previous_kubeadm_config_defaults(spec)
    for key, value in spec.items():
        assert result[key] == value


@given(st.dictionaries(TEXT | st.sampled_from(["format", "initConfiguration", "joinConfiguration"]), JSON, max_size=4))
def test_the_defaults_of_before_v1_11_are_idempotent(spec: dict[str, Any]) -> None:
    once = apply_previous_kubeadm_config_defaults(spec)
    assert apply_previous_kubeadm_config_defaults(once) == once
