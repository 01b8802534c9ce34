"""Machine names and label values, exactly as upstream makes them."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kubeadm import DEFAULT_TEMPLATE, TemplateError, label_value, machine_name, template_problems

RANDOM_PART = r"[bcdfghjklmnpqrstvwxz2456789]{5}"


def name(template: str = "", cluster: str = "prod", control_plane: str = "prod-cp", seed: int = 0) -> str:
    return machine_name(template, cluster=cluster, control_plane=control_plane, random=Random(seed))


def test_the_default_is_the_control_planes_name_and_five_random_characters() -> None:
    assert re.fullmatch(f"prod-cp-{RANDOM_PART}", name())
    assert name() == name(DEFAULT_TEMPLATE)


def test_the_randomness_is_the_callers() -> None:
    assert name(seed=1) == name(seed=1)
    assert name(seed=1) != name(seed=2)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ .cluster.name }}-{{ .random }}", f"prod-{RANDOM_PART}"),
        ("{{.cluster.name}}-x-{{ .random }}", f"prod-x-{RANDOM_PART}"),
        ("{{\t.kubeadmControlPlane.name\n}}{{ .random }}", f"prod-cp{RANDOM_PART}"),
        ("a {{- .cluster.name -}} b{{ .random }}", f"aprodb{RANDOM_PART}"),
        ("{{ .random }}-{{ .random }}", rf"({RANDOM_PART})-\1"),
    ],
)
def test_variables_are_replaced_in_any_white_space(template: str, expected: str) -> None:
    assert re.fullmatch(expected, name(template))


def test_a_name_of_63_characters_is_left_alone_and_a_longer_one_cut_to_58_and_five() -> None:
    assert len(fits := name(control_plane="a" * 57)) == 63
    assert fits.startswith("a" * 57 + "-")
    cut = name(control_plane="a" * 58)
    assert re.fullmatch("a" * 58 + RANDOM_PART, cut)


@given(st.text("abc-", min_size=1, max_size=120), st.text("abc-", min_size=1, max_size=120), st.integers())
def test_no_name_is_longer_than_a_host_name(cluster: str, control_plane: str, seed: int) -> None:
    template = "{{ .cluster.name }}-{{ .kubeadmControlPlane.name }}-{{ .random }}"
    made = name(template, cluster, control_plane, seed)
    assert made[:58] == f"{cluster}-{control_plane}-{made[-5:]}"[:58]
    assert len(made) == min(63, len(cluster) + len(control_plane) + 7)
    assert re.fullmatch(RANDOM_PART, made[-5:])


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{ .cluster.name }}", "lacks {{ .random }}"),
        ("{{.random}}", "lacks {{ .random }}"),
        (
            "{{ .clusterName }}-{{ .random }}",
            "'.clusterName' in '{{ .clusterName }}' is none of the variables .cluster.name, .kubeadmControlPlane.name, .random",
        ),
        ("{{ .cluster }}-{{ .random }}", "'.cluster' in"),
        ("{{ cluster.name }}-{{ .random }}", "'cluster.name' in"),
        ("{{ }}-{{ .random }}", "'nothing' in '{{ }}'"),
        ("{{ .random }}-{{ .cluster.name", "opens an action with '{{' and does not close it"),
    ],
)
def test_a_template_that_cannot_be_rendered_says_where(template: str, complaint: str) -> None:
    with pytest.raises(TemplateError, match=re.escape(complaint)):
        name(template)


@pytest.mark.parametrize(
    "template", ["", DEFAULT_TEMPLATE, "{{ .cluster.name }}.{{ .random }}", "{{ .random }}", "x" * 70 + "{{ .random }}"]
)
def test_a_fit_template_has_no_problems(template: str) -> None:
    assert template_problems(template) == ()


@pytest.mark.parametrize(
    ("template", "complaints"),
    [
        ("{{ .cluster.name }}", ["{{ .random }} is missing"]),
        ("A-{{ .random }}", ["'A-bcdfg', which is no lower case RFC 1123 subdomain"]),
        ("-{{ .random }}", ["'-bcdfg', which"]),
        ("{{ .random }}-", ["'bcdfg-', which"]),
        ("x..{{ .random }}", ["'x..bcdfg', which"]),
        ("{{ .nope }}", ["{{ .random }} is missing", "'.nope' in '{{ .nope }}'"]),
        ("{{ .random }}{{", ["does not close it"]),
    ],
)
def test_every_fault_of_a_template_is_told(template: str, complaints: list[str]) -> None:
    problems = template_problems(template)
    assert len(problems) == len(complaints)
    for problem, complaint in zip(problems, complaints, strict=True):
        assert complaint in problem


@pytest.mark.parametrize("value", ["", "a", "machineSetName", "a.b_c-D9", "a" * 63])
def test_a_valid_label_value_is_left_alone(value: str) -> None:
    assert label_value(value) == value


def test_what_is_too_long_for_a_label_is_hashed_as_upstream_hashes_it() -> None:
    assert label_value("machineSetName" * 12) == "hash_FR_ghQ_z"  # the value in upstream's own test


@given(st.text(max_size=80))
def test_every_name_becomes_a_valid_label_value(text: str) -> None:
    value = label_value(text)
    assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)
    assert label_value(value) == value
