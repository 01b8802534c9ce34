"""The closed set of steps: everything that may be done to a control plane. Executors match it exhaustively; as text, a step is an instruction for a reader."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Make sure that nothing of the control plane disappears before it was taken down in order."""

    def __str__(self) -> str:
        return "add the finalizer"


@dataclass(frozen=True, slots=True)
class EnsureCertificates:
    """Generate the CAs that are missing, by purpose. Only ever before initialization."""

    purposes: tuple[str, ...]

    def __str__(self) -> str:
        return f"generate CAs: {', '.join(self.purposes)}"


@dataclass(frozen=True, slots=True)
class WriteKubeconfig:
    """Write the admin kubeconfig: the first one, or (`rotate`) the next one with the same server."""

    rotate: bool

    def __str__(self) -> str:
        return "renew the kubeconfig" if self.rotate else "write the kubeconfig"


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """Bring up one more replica at the desired version, in this failure domain; the first one initializes the cluster."""

    failure_domain: str
    initialize: bool

    def __str__(self) -> str:
        what = "create the first machine" if self.initialize else "create a machine"
        return f"{what} in {self.failure_domain}" if self.failure_domain else what


@dataclass(frozen=True, slots=True)
class AbandonCreation:
    """Take back a creation that was intended, never finished and is not wanted any more."""

    name: str

    def __str__(self) -> str:
        return f"take back the creation of {self.name}"


@dataclass(frozen=True, slots=True)
class DeleteReplica:
    """Move leadership away from the replica if it holds it, then delete it; its member leaves when it waits at our hook."""

    replica: str

    def __str__(self) -> str:
        return f"delete {self.replica}"


@dataclass(frozen=True, slots=True)
class AskExtension:
    """Ask the runtime extension whether it can make of the replica what is desired. Changes nothing."""

    replica: str

    def __str__(self) -> str:
        return f"ask whether {self.replica} can be updated in place"


@dataclass(frozen=True, slots=True)
class UpdateInPlace:
    """Ask the extension and the ring once more, move leadership away from the replica, and have core begin its update in place. Finishes what was begun."""

    replica: str

    def __str__(self) -> str:
        return f"update {self.replica} in place"


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Hand leadership over if the member leads, remove it from the ring, then let its Machine go."""

    replica: str
    member: int

    def __str__(self) -> str:
        return f"remove etcd member {self.member:x} of {self.replica}"


@dataclass(frozen=True, slots=True)
class ReleaseHook:
    """Let a Machine go that has no member to remove."""

    replica: str

    def __str__(self) -> str:
        return f"let {self.replica} go"


@dataclass(frozen=True, slots=True)
class AdoptReplicas:
    """Become the owner of stand-alone control-plane Machines and of what belongs to them."""

    replicas: tuple[str, ...]

    def __str__(self) -> str:
        return f"adopt {', '.join(self.replicas)}"


@dataclass(frozen=True, slots=True)
class RemoveOrphan:
    """Remove a member that belongs to no replica from the ring."""

    member: int

    def __str__(self) -> str:
        return f"remove orphan etcd member {self.member:x}"


@dataclass(frozen=True, slots=True)
class Remediate:
    """Replace a replica that failed: record that it is about to go, move leadership away, delete it, and leave upstream's record for its replacement."""

    replica: str
    retries: int

    def __str__(self) -> str:
        return f"replace {self.replica}, which failed"


@dataclass(frozen=True, slots=True)
class RecordRemediation:
    """Finish the records of a remediation whose replica was deleted just before a crash."""

    def __str__(self) -> str:
        return "finish the record of a remediation"


@dataclass(frozen=True, slots=True)
class ForgetRemediation:
    """Clear the records of a remediation: its replacement exists, or none is wanted, or it never began and is not wanted any more."""

    def __str__(self) -> str:
        return "clear the record of a remediation"


@dataclass(frozen=True, slots=True)
class PrepareWorkload:
    """Give API servers and joining nodes of the desired version what they will read: permissions, then kubeadm's configuration."""

    def __str__(self) -> str:
        return "update permissions and kubeadm's configuration in the workload cluster"


@dataclass(frozen=True, slots=True)
class MoveCoreDNS:
    """Evict CoreDNS from the replica's Node, one Pod at a time, while the others can do without it."""

    replica: str

    def __str__(self) -> str:
        return f"move CoreDNS off the node of {self.replica}, which goes next"


@dataclass(frozen=True, slots=True)
class UpdateAddons:
    """Bring kube-proxy and CoreDNS to what the desired version wants."""

    def __str__(self) -> str:
        return "update kube-proxy and CoreDNS"


@dataclass(frozen=True, slots=True)
class RecordExpiries:
    """Ask these replicas' API servers for their certificates and record when they expire."""

    replicas: tuple[str, ...]

    def __str__(self) -> str:
        return f"record when the API server certificates of {', '.join(self.replicas)} expire"


@dataclass(frozen=True, slots=True)
class DeleteAll:
    """Take the whole control plane down: release every hook and delete every replica, in no order, without a ring to save."""

    replicas: tuple[str, ...]

    def __str__(self) -> str:
        return f"delete all machines: {', '.join(self.replicas)}"


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Nothing is left: let the control plane object go."""

    def __str__(self) -> str:
        return "remove the finalizer"


Step = (
    AddFinalizer
    | EnsureCertificates
    | WriteKubeconfig
    | CreateReplica
    | AbandonCreation
    | DeleteReplica
    | AskExtension
    | UpdateInPlace
    | RemoveMember
    | ReleaseHook
    | AdoptReplicas
    | RemoveOrphan
    | Remediate
    | RecordRemediation
    | ForgetRemediation
    | PrepareWorkload
    | MoveCoreDNS
    | UpdateAddons
    | RecordExpiries
    | DeleteAll
    | RemoveFinalizer
)
"""Any step."""

GROWS = frozenset({CreateReplica})
"""Steps that add to the control plane."""
SHRINKS = frozenset({DeleteReplica, RemoveMember, ReleaseHook, RemoveOrphan, Remediate, UpdateInPlace})
"""Steps that take away from a control plane that is to live; an update in place does for as long as it takes."""
EVERYTHING: frozenset[type[Step]] = frozenset(Step.__args__)


def is_left_of(step: Step, before: Step) -> bool:
    """Whether this is what is left to do of a step that is being taken: CAs come, and Machines go, one at a time."""
    match before, step:
        case (
            (EnsureCertificates(all_of_it), EnsureCertificates(left))
            | (AdoptReplicas(all_of_it), AdoptReplicas(left))
            | (RecordExpiries(all_of_it), RecordExpiries(left))
            | (DeleteAll(all_of_it), DeleteAll(left))
        ):
            return set(left) < set(all_of_it)
    return False


def involved(step: Step) -> tuple[str, ...]:
    """The replicas that a step is about; none where it is about the control plane."""
    match step:
        case DeleteReplica(name) | RemoveMember(name) | ReleaseHook(name) | Remediate(name) | MoveCoreDNS(name):
            return (name,)
        case AskExtension(name) | UpdateInPlace(name):
            return (name,)
        case AdoptReplicas(names) | RecordExpiries(names) | DeleteAll(names):
            return names
    return ()
