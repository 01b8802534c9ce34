"""clusterctl's repository: for each provider's name and version a folder with the components, once for each way to get certificates, and metadata.yaml.

Source: cluster-api, docs/book/src/clusterctl/provider-contract.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from quorate.clusterapi.types.resources import VERSION
from quorate.core import documents
from tools.release.installation import Certificates, Installation, Settings
from tools.release.product import Product

PROVIDERS = ("quorate", "kubeadm")
"""Its own name, and upstream's, for automation that says that one: then clusterctl's configuration has to name this repository for it."""
COMPONENTS = {
    Certificates.CERT_MANAGER: "control-plane-components.yaml",
    Certificates.SELF_MANAGED: "control-plane-components-self-managed.yaml",
}
GATES = {
    "MachinePool": "${EXP_MACHINE_POOL:=true}",
    "ClusterTopology": "${CLUSTER_TOPOLOGY:=false}",
    "KubeadmBootstrapFormatIgnition": "${EXP_KUBEADM_BOOTSTRAP_FORMAT_IGNITION:=false}",
    "InPlaceUpdates": "${EXP_IN_PLACE_UPDATES:=false}",
    "MachineTaintPropagation": "${EXP_MACHINE_TAINT_PROPAGATION:=false}",
}
"""The gates that mean something here, by upstream's variables."""
_VARIABLE = re.compile(r"\$\{[A-Z_]+:=([^}]*)\}")


def settings(product: Product) -> Settings:
    """What clusterctl's users set by variables, under upstream's names."""
    return Settings(
        image=product.reference,
        diagnostics_address="${CAPI_DIAGNOSTICS_ADDRESS:=:8443}",
        insecure_diagnostics="${CAPI_INSECURE_DIAGNOSTICS:=false}",
        feature_gates=",".join(f"{gate}={value}" for gate, value in sorted(GATES.items())),
    )


def components(product: Product, provider: str, certificates: Certificates) -> str:
    """The components as YAML, with variables."""
    return documents.dump_all(Installation(settings(product), provider, certificates).objects(), explicit_start=True, width=140)


def with_defaults(text: str) -> str:
    """The text with each variable's default in its place."""
    return _VARIABLE.sub(r"\1", text)


def metadata(product: Product) -> str:
    """metadata.yaml: which contract of Cluster API this series of releases fulfils."""
    major, minor = product.series
    content = {
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": [{"major": major, "minor": minor, "contract": VERSION}],
    }
    return documents.dump_all([content])


def write(folder: Path, product: Product) -> None:
    """Write the repository into `folder`."""
    for provider in PROVIDERS:
        release = folder / f"control-plane-{provider}" / product.tag
        release.mkdir(parents=True, exist_ok=True)
        (release / "metadata.yaml").write_text(metadata(product))
        for certificates, name in COMPONENTS.items():
            (release / name).write_text(components(product, provider, certificates))
