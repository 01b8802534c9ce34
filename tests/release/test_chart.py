"""The Helm chart: made of the objects that clusterctl installs, and the same once Helm has rendered it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import yaml

from tools.release import chart, helm
from tools.release.installation import Certificates
from tools.release.product import CACHE, Product

PRODUCT = Product("1.2.3", "c0ffee", 1_700_000_000, "registry.example.com/quorate")
BUILT = CACHE / "bin" / "helm"
RENDERED = pytest.mark.skipif(not BUILT.exists(), reason="helm is not built: `make release` builds it, and looks at the chart with it")


def test_the_package_is_what_helm_takes_and_always_the_same(tmp_path: Path) -> None:
    path = chart.write(tmp_path, PRODUCT)
    first = path.read_bytes()
    assert path.name == "quorate-1.2.3.tgz"
    with tarfile.open(path) as tar:
        assert {name.partition("/")[0] for name in tar.getnames()} == {"quorate"}
        assert {"quorate/Chart.yaml", "quorate/values.yaml", "quorate/values.schema.json"} < set(tar.getnames())
    assert chart.write(tmp_path, PRODUCT).read_bytes() == first


def test_every_value_is_used_and_every_one_that_is_used_is_there() -> None:
    files = chart.files(PRODUCT)
    templates = "".join(text for name, text in files.items() if name.startswith("templates/"))
    values = yaml.safe_load(files["values.yaml"])
    for name, value in values.items():
        for path in [f"{name}.{key}" for key in value] if isinstance(value, dict) and name not in ("resources", "featureGates") else [name]:
            assert f".Values.{path}" in templates
    assert "${" not in templates


def test_templates_in_descriptions_are_no_templates_of_the_chart() -> None:
    text = chart.files(PRODUCT)["templates/customresourcedefinition-kubeadmcontrolplanes.yaml"]
    assert "{{ .kubeadmControlPlane.name" not in text
    assert '{{ "{{" }} .kubeadmControlPlane.name' in text


@RENDERED
def test_rendered_with_default_values_it_is_what_clusterctl_installs(tmp_path: Path) -> None:
    helm.check(BUILT, chart.write(tmp_path, PRODUCT), PRODUCT)


@RENDERED
def test_values_reach_what_they_speak_of(tmp_path: Path) -> None:
    options = (
        "--set=image.repository=mirror.example.com/quorate,image.tag=v9,replicas=3",
        "--set=featureGates.ClusterTopology=true,resources.limits.memory=4Gi",
        "--set=extraArgs={--v=4}",
        "--set=crds.install=false,networkPolicy.enabled=false,podDisruptionBudget.enabled=false",
        f"--set=webhooks.certificates={Certificates.SELF_MANAGED}",
    )
    found = helm.rendered(BUILT, chart.write(tmp_path, PRODUCT), *options)
    deployment = found["Deployment", "quorate-controller-manager"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 3
    assert container["image"] == "mirror.example.com/quorate:v9"
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    assert {"--webhook-certificates=self-managed", "--v=4"} < set(container["args"])
    assert "ClusterTopology=true" in next(each for each in container["args"] if each.startswith("--feature-gates="))
    assert {kind for kind, _ in found} & {"CustomResourceDefinition", "NetworkPolicy", "PodDisruptionBudget", "Issuer"} == set()
