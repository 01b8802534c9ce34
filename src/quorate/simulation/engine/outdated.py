"""Whether a Machine differs from a specification, told from the objects themselves and independently of the provider's own comparison."""

from __future__ import annotations

from datetime import datetime, timedelta

from quorate.clusterapi.types.names import Annotation
from quorate.simulation.engine.apiserver import ApiServer, timestamp
from quorate.simulation.engine.objects import CONFIGS, INFRASTRUCTURE, Json, Stored


def differences(server: ApiServer, spec: Json, machine: Stored, now: datetime) -> list[str]:
    """In which ways a Machine differs from what `spec` of its control plane asks for at `now`, of the ways that users of the simulation can bring about."""
    found = ["another version is wanted"] if machine.spec.get("version") != spec["version"] else []
    infrastructure = server.find(INFRASTRUCTURE, *machine.key)
    template = spec["machineTemplate"]["spec"]["infrastructureRef"]["name"]
    if infrastructure is not None and infrastructure.annotations.get(Annotation.CLONED_FROM_NAME, template) != template:
        found.append("another template is wanted")
    config = server.find(CONFIGS, *machine.key)
    if config is not None and config.spec.get("files") != (spec.get("kubeadmConfigSpec") or {}).get("files"):
        found.append("another configuration is wanted")
    after = (spec.get("rollout") or {}).get("after")
    if after and machine.metadata["creationTimestamp"] < after <= timestamp(now):
        found.append("rollout.after has passed")
    days = ((spec.get("rollout") or {}).get("before") or {}).get("certificatesExpiryDays")
    expiry = machine.status.get("certificatesExpiryDate")
    if days and expiry and datetime.fromisoformat(expiry) - now <= timedelta(days=days):
        found.append("its certificate expires soon")
    return found
