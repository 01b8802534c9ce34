"""The cluster's CAs and the admin kubeconfig."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import failed, passed, unknown
from quorate.core.health import Unknown
from quorate.core.machines.checks import CERTIFICATES
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import GROWS, EnsureCertificates, Step, WriteKubeconfig
from quorate.core.proposal import Proposal, blocking, wanting

KUBECONFIG = "the kubeconfig is available"
_RESTORE = "Restore the Secrets from a backup."


def provide_certificates(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Generates missing CAs before the first Machine and never after: nothing that runs would trust a new CA, nor would a host on which kubeadm may just be
    initializing the cluster.
    """
    certificates = control_plane.certificates
    if certificates.problem:
        return blocking(GROWS | {WriteKubeconfig}, unknown(CERTIFICATES, certificates.problem, "Correct or delete the Secret."))
    if not certificates.missing:
        return Proposal(checks=(passed(CERTIFICATES, "all of them"),))
    missing = ", ".join(certificates.missing)
    if isinstance(control_plane.initialized, Unknown):
        return blocking(
            GROWS | {WriteKubeconfig}, unknown(CERTIFICATES, f"missing: {missing}; {control_plane.initialized.reason}", _RESTORE)
        )
    if control_plane.initialized:
        return blocking(
            GROWS | {WriteKubeconfig},
            failed(CERTIFICATES, f"missing after initialization: {missing}", _RESTORE),
        )
    if control_plane.replicas:
        names = ", ".join(replica.name for replica in control_plane.replicas)
        evidence = f"missing, and {names} may have been given those that were there: {missing}"
        return blocking(
            GROWS | {WriteKubeconfig},
            failed(CERTIFICATES, evidence, f"{_RESTORE[:-1]}, or delete Machine {names}: the next one is given new ones."),
        )
    if not certificates.generatable:
        return blocking(GROWS | {WriteKubeconfig}, failed(CERTIFICATES, f"not supplied yet: {missing}", "Create the Secrets."))
    return wanting(EnsureCertificates(certificates.missing))


def provide_the_kubeconfig(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Writes the kubeconfig once the CA and the endpoint exist, and renews its client certificate at half its lifetime. Never touches a user's own.

    One that cannot be written is tried again later and holds up nothing but the first replica, of whose cluster nobody could make use.
    """
    kubeconfig = control_plane.kubeconfig
    if kubeconfig.problem:
        return Proposal(checks=(failed(KUBECONFIG, kubeconfig.problem, "Correct or delete the Secret."),))
    if not kubeconfig.exists:
        return _written(control_plane, now, rotate=False)
    if not kubeconfig.ours or kubeconfig.rotates_at is None:
        return Proposal(checks=(passed(KUBECONFIG, "supplied by the user"),))
    if kubeconfig.rotates_at <= now:
        return _written(control_plane, now, rotate=True)
    return Proposal(
        checks=(passed(KUBECONFIG, f"its certificate is renewed at {kubeconfig.rotates_at:%Y-%m-%d}"),), wake_at=kubeconfig.rotates_at
    )


def _written(control_plane: ControlPlane, now: datetime, *, rotate: bool) -> Proposal[Step]:
    kubeconfig = control_plane.kubeconfig
    if kubeconfig.retry_at is None or kubeconfig.retry_at <= now:
        return wanting(WriteKubeconfig(rotate))
    remedy = "Correct what the answer names, such as a permission or the CA; the write is tried again by itself."
    check = failed(KUBECONFIG, f"it could not be written: {kubeconfig.write_problem}", remedy)
    blocks = frozenset() if control_plane.may_be_initialized else GROWS
    return Proposal(checks=(check,), blocks=blocks, wake_at=kubeconfig.retry_at)
