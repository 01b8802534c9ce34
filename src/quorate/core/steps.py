"""The closed set of steps: everything that may ever be done to a control plane. Matched exhaustively by whoever acts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Make sure that nothing of the control plane disappears before it was taken down in order."""


@dataclass(frozen=True, slots=True)
class EnsureCertificates:
    """Generate the authorities that are missing, by purpose. Only ever before initialization."""

    purposes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteKubeconfig:
    """Write the admin kubeconfig: the first one, or (`rotate`) the next one with the same server."""

    rotate: bool


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """Bring up one more replica at the desired version, in this failure domain; the first one initializes the cluster."""

    failure_domain: str
    initialize: bool


@dataclass(frozen=True, slots=True)
class AbandonCreation:
    """Take back a creation that was intended, never finished and is not wanted any more."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteReplica:
    """Move leadership away from the replica if it holds it, then delete it; its member leaves when it waits at our hook."""

    replica: str


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Hand leadership over if the member leads, remove it from the ring, then let its Machine go."""

    replica: str
    member: int


@dataclass(frozen=True, slots=True)
class ReleaseHook:
    """Let a Machine go that has no member to remove."""

    replica: str


@dataclass(frozen=True, slots=True)
class DeleteAll:
    """Take the whole control plane down: release every hook and delete every replica, in no order, without a ring to save."""

    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Nothing is left: let the control plane object go."""


Step = (
    AddFinalizer
    | EnsureCertificates
    | WriteKubeconfig
    | CreateReplica
    | AbandonCreation
    | DeleteReplica
    | RemoveMember
    | ReleaseHook
    | DeleteAll
    | RemoveFinalizer
)
"""Any step."""

GROWS = frozenset({CreateReplica})
"""Steps that add to the control plane."""
SHRINKS = frozenset({DeleteReplica, RemoveMember, ReleaseHook})
"""Steps that take away from a control plane that is to live."""
EVERYTHING: frozenset[type[Step]] = frozenset(Step.__args__)
