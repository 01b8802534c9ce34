"""What was observed of a management cluster in which one provider is to take the other's place, frozen: the only thing that `decide` looks at.

Both directions are one: the provider that is to answer for the control planes is the coming one, the other the leaving one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


class Side(Enum):
    """Whose provider."""

    UPSTREAM = "upstream"
    QUORATE = "quorate"

    @property
    def other(self) -> Side:
        """The other one."""
        return Side.QUORATE if self is Side.UPSTREAM else Side.UPSTREAM

    def __str__(self) -> str:
        return "upstream's provider" if self is Side.UPSTREAM else "quorate"


class Part(Enum):
    """What an object of an installation is there for."""

    GROUND = "ground"  # what a provider needs before it can start: namespace, account, definitions, certificates
    RIGHTS = "rights"  # roles: while both providers run under one account, these are the rights of both
    PROVIDER = "provider"  # the Deployment
    WEBHOOKS = "webhooks"  # whom the API server asks, and under which address
    INVENTORY = "inventory"  # what clusterctl believes to be installed


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """An object by its kind and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object of either installation, and whose form it has now; one that neither provider made so has none of the forms."""

    key: Key
    part: Part
    coming: bool  # the coming installation has it
    leaving: bool  # the leaving one has it
    exists: bool = True
    as_coming: bool = False
    as_leaving: bool = False
    as_both: bool = False  # of rights: everything that either provider may do is granted
    stays: bool = False  # it is never deleted: others' objects hang on it
    changes: tuple[str, ...] = ()  # what the coming form changes in it, field by field

    @property
    def foreign(self) -> bool:
        """Whether somebody has changed it since both installations were written down."""
        return self.exists and not (self.as_coming or self.as_leaving or self.as_both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What is known of one provider by its manifests, and of its processes."""

    side: Side
    label: str  # by which clusterctl knows what belongs to it
    version: str  # "": not known
    deployment: Key
    gates: frozenset[str] = frozenset()  # the feature gates that are on
    watches: str = ""  # the namespace that it is restricted to; "": all
    filters: str = ""  # the value of the label that it is restricted to; "": all
    lease: str = ""  # the Lease by which it elects; "": it does not
    only_the_leader_serves: bool = False  # it makes its certificates, and can serve webhooks once it leads
    exists: bool = False
    desired: int = 0  # Pods
    pods: tuple[str, ...] = ()  # that exist, those being deleted included
    running: int = 0
    available: int = 0
    problem: str = ""  # why Pods do not come up

    @property
    def stopped(self) -> bool:
        """Whether no process of it can be alive, and none is wanted."""
        return not self.pods and (self.desired == 0 or not self.exists)

    @property
    def ready(self) -> bool:
        """Whether it could take over now."""
        up = self.running if self.only_the_leader_serves else self.available
        return self.exists and self.desired > 0 and up >= self.desired


@dataclass(frozen=True, slots=True)
class Lease:
    """The Lease that both elect by. `idle` is for how long nobody is seen to renew it; `fresh` is whether it was renewed after the leaving provider's last
    Pod was gone.
    """

    holder: str = ""
    idle: timedelta = timedelta(0)
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A CustomResourceDefinition of control planes: the versions that either provider serves, and those that are stored."""

    name: str
    coming: frozenset[str]
    leaving: frozenset[str]
    stored: frozenset[str]


class Prospect(Enum):
    """What the coming provider would do to a control plane."""

    AT_REST = "at rest"  # nothing, or nothing to its Machines
    IN_MOTION = "in motion"  # it would go on with what the leaving one has begun
    OTHERWISE = "otherwise"  # something that the leaving one does not do
    UNCLEAR = "unclear"  # it cannot be judged


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A KubeadmControlPlane, as `namespace/name`, as the coming provider judges it."""

    name: str
    prospect: Prospect
    evidence: str
    unreported: str = ""  # in what its status is not yet what the coming provider says of it


@dataclass(frozen=True, slots=True)
class Journal:
    """What is written down in the management cluster: which way the change goes, since when, why it turned back ("": it did not), and whether it is over."""

    toward: Side
    since: datetime
    returning: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The management cluster at one moment. `goal` is what the command is to reach."""

    goal: Side
    coming: Provider
    leaving: Provider
    items: tuple[Item, ...]
    definitions: tuple[Definition, ...] = ()
    lease: Lease = Lease()
    control_planes: tuple[ControlPlane, ...] | None = (
        None  # None: nobody has looked at them, which takes seconds, and is done when it matters
    )
    journal: Journal | None = None
    core_version: str = ""  # of Cluster API's core provider; "": not known
    unserved: tuple[str, ...] = ()  # kinds that the coming installation needs and nobody has defined
    owners: tuple[tuple[str, str], ...] = ()  # objects of the leaving installation that others apply again, and by what that is seen
    undone: tuple[Key, ...] = ()  # objects that were written in this run and have lost it again, several times
    accepted: frozenset[str] = frozenset()  # control planes that the operator vouches for
    owners_told: bool = False  # the operator has told the owners
    since: datetime  # when this run of the command, or this direction, began
    limit: timedelta = timedelta(minutes=5)

    @property
    def under_way(self) -> bool:
        """Whether something has been changed that is not finished."""
        return self.journal is not None and not self.journal.done
