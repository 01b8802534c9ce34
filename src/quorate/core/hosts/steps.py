"""The closed set of steps on existing hosts. Executors match it exhaustively; as text, a step is an instruction for a reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from quorate.core.hosts.encryption import IDENTITY, NEW, Configuration
from quorate.core.versions import Version


@dataclass(frozen=True, slots=True)
class Prepare:
    """Bring packages, settings and images to hosts that belong to no cluster, all at once."""

    hosts: tuple[str, ...]

    def __str__(self) -> str:
        return f"prepare {', '.join(self.hosts)}"


@dataclass(frozen=True, slots=True)
class Initialize:
    """Make the first control plane of a cluster; `resume` where an earlier attempt was cut short, whose etcd and keys are kept."""

    host: str
    resume: bool = False

    def __str__(self) -> str:
        return f"continue to initialize the cluster on {self.host}" if self.resume else f"initialize the cluster on {self.host}"


@dataclass(frozen=True, slots=True)
class Join:
    """Let a prepared host join as one more control plane."""

    host: str

    def __str__(self) -> str:
        return f"join {self.host} as a control plane"


@dataclass(frozen=True, slots=True)
class JoinWorkers:
    """Let prepared hosts join as workers, all at once."""

    hosts: tuple[str, ...]

    def __str__(self) -> str:
        return f"join {', '.join(self.hosts)} as workers"


@dataclass(frozen=True, slots=True)
class Reset:
    """Take every trace of the cluster from a host that holds no member of the ring. The ring itself is left alone."""

    host: str

    def __str__(self) -> str:
        return f"reset {self.host}"


@dataclass(frozen=True, slots=True)
class StartServices:
    """Start units of a host that should run and do not."""

    host: str
    units: tuple[str, ...]

    def __str__(self) -> str:
        return f"start {', '.join(self.units)} on {self.host}"


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Save etcd's data to the operator's machine, and verify it."""

    def __str__(self) -> str:
        return "take a snapshot of etcd"


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Hand leadership over if the member leads, then remove it from the ring."""

    member: int
    owner: str  # the host that it is, or was, of

    def __str__(self) -> str:
        return f"remove etcd member {self.member:x} of {self.owner}" if self.owner else f"remove orphan etcd member {self.member:x}"


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a Node whose host is gone or goes; `drain`: its Pods are evicted before, so that they end in their own time and run elsewhere."""

    node: str
    drain: bool = False

    def __str__(self) -> str:
        return f"drain and delete Node {self.node}" if self.drain else f"delete Node {self.node}"


@dataclass(frozen=True, slots=True)
class UpdateConfiguration:
    """Bring kubeadm's and the kubelets' configuration in the cluster to what the manifest says."""

    def __str__(self) -> str:
        return "update kubeadm's configuration in the cluster"


@dataclass(frozen=True, slots=True)
class UpgradeControlPlane:
    """Upgrade a host's control plane by kubeadm; `first` of the cluster, which upgrades the add-ons and configuration too."""

    host: str
    version: Version
    first: bool

    def __str__(self) -> str:
        return f"upgrade the control plane of {self.host} to {self.version}"


@dataclass(frozen=True, slots=True)
class UpgradeKubelet:
    """Drain a host, upgrade its kubelet, and let Pods return."""

    host: str
    version: Version

    def __str__(self) -> str:
        return f"upgrade the kubelet of {self.host} to {self.version}"


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Regenerate a host's static Pods and files as the manifest says."""

    host: str

    def __str__(self) -> str:
        return f"apply the manifest's settings to {self.host}"


@dataclass(frozen=True, slots=True)
class ChangeEncryption:
    """Give a host's API server these providers, and restart it so that it uses them. What it stores is read by all others, and what they store by it."""

    host: str
    configuration: Configuration

    @property
    def exchanges_keys(self) -> bool:
        """Whether a new key is on its way in: what `rotate_encryption_key` asks for is then being done."""
        return NEW in self.configuration.secrets or len(self.configuration.keys) > 1

    def __str__(self) -> str:
        return f"have the API server of {self.host} {self.configuration.in_words}"


@dataclass(frozen=True, slots=True)
class RewriteSecrets:
    """Write every Secret anew, which stores it with this provider, and make sure in etcd that it is."""

    provider: str

    def __str__(self) -> str:
        return f"write every Secret anew, {'unencrypted' if self.provider == IDENTITY else 'encrypted'}"


@dataclass(frozen=True, slots=True)
class RenewCertificates:
    """Renew a host's certificates and restart what reads them."""

    host: str

    def __str__(self) -> str:
        return f"renew the certificates of {self.host}"


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Let Pods return to a Node that an interrupted upgrade of ours left cordoned."""

    host: str

    def __str__(self) -> str:
        return f"let Pods return to {self.host}"


@dataclass(frozen=True, slots=True)
class UpdateNodes:
    """Set labels, annotations and taints of Nodes as the manifest says."""

    hosts: tuple[str, ...]

    def __str__(self) -> str:
        return f"update labels, annotations and taints of {', '.join(self.hosts)}"


@dataclass(frozen=True, slots=True)
class EnsureMachineDeployments:
    """Create the MachineDeployments of the manifest that are missing, and set the version of those that have another."""

    def __str__(self) -> str:
        return "ensure the MachineDeployments of dynamicWorkers"


OnOneHost = (
    Initialize
    | Join
    | Reset
    | StartServices
    | UpgradeControlPlane
    | UpgradeKubelet
    | Reconfigure
    | ChangeEncryption
    | RenewCertificates
    | Uncordon
)
"""Steps on one host."""
OnSeveralHosts = Prepare | JoinWorkers | UpdateNodes
"""Steps on several hosts at once."""
Step = (
    OnOneHost | OnSeveralHosts | TakeSnapshot | RemoveMember | DeleteNode | UpdateConfiguration | RewriteSecrets | EnsureMachineDeployments
)
"""Any step on hosts."""

CHANGES_RING_OR_VERSION: frozenset[type[Step]] = frozenset({Join, RemoveMember, UpgradeControlPlane})
"""Steps that a verified snapshot comes before."""
DESTROYS: frozenset[type[Step]] = frozenset({Initialize, Reset, RemoveMember, DeleteNode})
"""Steps that nobody can take back: a second cluster begins, or a host, a member or a Node is lost. None is done that was not shown (S14)."""
CHANGES_WHAT_RUNS: frozenset[type[Step]] = frozenset(
    {UpdateConfiguration, UpgradeControlPlane, UpgradeKubelet, Reconfigure, ChangeEncryption, RewriteSecrets, RenewCertificates}
)
"""Steps on hosts that are well, which wait until everything that needs repair is repaired."""
EVERYTHING: frozenset[type[Step]] = frozenset(Step.__args__)


def involved(step: Step) -> tuple[str, ...]:
    """The hosts that a step is about; of a Node's deletion the Node; none where it is about the cluster."""
    if isinstance(step, OnOneHost):
        return (step.host,)
    if isinstance(step, OnSeveralHosts):
        return step.hosts
    match step:
        case RemoveMember():
            return (step.owner,) if step.owner else ()
        case DeleteNode():
            return (step.node,)
        case TakeSnapshot() | UpdateConfiguration() | RewriteSecrets() | EnsureMachineDeployments():
            return ()
        case _:
            assert_never(step)
