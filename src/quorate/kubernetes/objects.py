"""The built-in kinds that are read, as far as they are read. Typed, frozen, and never written back whole: a Struct forgets the fields it does not know."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, dataclass_transform

import msgspec
from msgspec import UNSET, Raw, Struct, StructMeta, UnsetType, field
from msgspec.structs import force_setattr

from quorate.core.text import printable, printable_lines


class _Meta(StructMeta):
    """Gives every Struct here the same settings, which msgspec does not inherit in full.

    gc=False: they are trees, and the cyclic collector would walk them for nothing (a list of 5,000 decodes in a fifth of the time).
    """

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **given: Any) -> Any:
        settings: dict[str, Any] = {"kw_only": True, "frozen": True, "gc": False, "omit_defaults": True, "rename": "camel"}
        return super().__new__(cls, name, bases, namespace, **(settings | given))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Object(Struct, frozen=True, metaclass=_Meta):
    """Base of what is decoded from the API: keyword-only, frozen, JSON names in camelCase."""


class OwnerReference(Object):
    """An owner of an object, in the same namespace."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Told(Object):
    """Base of what is made of texts that people are told: those of the fields in `_TOLD` are one printable line, that in `_LISTED` may be several, whatever
    the server sent.
    """

    _TOLD: ClassVar[tuple[str, ...]] = ()
    _LISTED: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for names, cleaned in ((self._TOLD, printable), (self._LISTED, printable_lines)):
            for name in names:
                given = getattr(self, name)
                if not given.isprintable():
                    force_setattr(self, name, cleaned(given))


class ObjectMeta(Told):
    """Metadata without managedFields, which are half of an object's size and of no use to a reader."""

    _TOLD = ("name", "namespace")

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: list[str] = field(default_factory=list)
    owner_references: list[OwnerReference] = field(default_factory=list)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class FieldOwner(Object):
    """One entry of managedFields: which fields of an object belong to which manager. `fields_v1` stays as the JSON that it came as."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    api_version: str = ""
    fields_v1: Raw = Raw(b"{}")


class OwnedMeta(ObjectMeta):
    """Metadata of what we apply to: with those of its managedFields that tell what was applied to it, by whomever. 1 KB of the 3 KB that all of them take."""

    managed_fields: list[FieldOwner] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Keep the entries of whoever applied something, each in memory of its own: as it comes it is a part of the whole answer, and would hold that."""
        super().__post_init__()
        applied = [owner for owner in self.managed_fields if owner.operation == "Apply" and not owner.subresource]
        force_setattr(self, "managed_fields", [msgspec.structs.replace(owner, fields_v1=owner.fields_v1.copy()) for owner in applied])


class Condition(Told):
    """What is true of an object, and why."""

    _TOLD = ("type", "status", "reason")
    _LISTED = ("message",)

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Secret(Object):
    """A Secret; `data` is decoded from base64. Its repr shows the keys alone."""

    metadata: ObjectMeta
    type: str = ""
    data: dict[str, bytes] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What rich shows, in a traceback's locals too; a Struct's own would show every field."""
        return [("name", f"{self.metadata.namespace}/{self.metadata.name}"), ("keys", sorted(self.data))]


class Namespace(Object):
    """A Namespace; its labels are all that matters here."""

    metadata: ObjectMeta


class ConfigMap(Object):
    """A ConfigMap."""

    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict)


class Taint(Object):
    """A taint of a Node."""

    key: str
    effect: str
    value: str = ""
    time_added: str = ""  # of one that evicts


class NodeSpec(Object):
    """What is desired of a Node."""

    provider_id: str = field(default="", name="providerID")
    taints: list[Taint] = field(default_factory=list)
    unschedulable: bool = False


class NodeInfo(Object):
    """What the kubelet says of itself."""

    kubelet_version: str = ""


class NodeAddress(Object):
    """One address of a Node: InternalIP, Hostname and the like."""

    type: str
    address: str


class NodeStatus(Object):
    """What was seen of a Node."""

    conditions: list[Condition] = field(default_factory=list)
    addresses: list[NodeAddress] = field(default_factory=list)
    node_info: NodeInfo = NodeInfo()


class Node(Object):
    """A Node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ContainerStateWaiting(Told):
    """Why a container does not run yet."""

    _TOLD = ("reason", "message")

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Told):
    """How a container ended."""

    _TOLD = ("reason", "message")

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Object):
    """One of waiting, terminated, or (neither) running."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Object):
    """What was seen of a container."""

    name: str = ""
    ready: bool = False
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Object):
    """What was seen of a Pod."""

    phase: str = ""
    conditions: list[Condition] = field(default_factory=list)
    container_statuses: list[ContainerStatus] = field(default_factory=list)
    init_container_statuses: list[ContainerStatus] = field(default_factory=list)


class Pod(Object):
    """A Pod, without its specification."""

    metadata: ObjectMeta
    status: PodStatus = PodStatus()


class LeaseSpec(Object):
    """Who holds a Lease, since when and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None  # RFC 3339 with microseconds; never compared with a clock of ours
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object):
    """A Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


class CustomResourceDefinitionNames(Object):
    """How a custom resource is called."""

    kind: str = ""
    plural: str = ""


class CustomResourceDefinitionValidation(Object):
    """What the API server holds the objects of one version to."""

    open_apiv3_schema: dict[str, Any] = field(default_factory=dict, name="openAPIV3Schema")


class CustomResourceDefinitionVersion(Object):
    """One version of a custom resource."""

    name: str
    served: bool = True
    storage: bool = False
    schema: CustomResourceDefinitionValidation = CustomResourceDefinitionValidation()


class CustomResourceDefinitionSpec(Object):
    """As much of a CustomResourceDefinition as tells where its objects are, and what they are like."""

    group: str = ""
    names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    versions: list[CustomResourceDefinitionVersion] = field(default_factory=list)


class CustomResourceDefinition(Object):
    """A CustomResourceDefinition; Cluster API's contract labels are on its metadata."""

    metadata: ObjectMeta
    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()


class StatusDetails(Object):
    """What a Status says beyond its reason."""

    name: str = ""
    group: str = ""
    kind: str = ""
    retry_after_seconds: int = 0
    causes: list[dict[str, Any]] = field(default_factory=list)


class Status(Object):
    """The API's answer to what failed, or to a deletion that is done."""

    kind: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ListMeta(Object):
    """Metadata of a list."""

    resource_version: str = ""
    continue_: str | UnsetType = field(default=UNSET, name="continue")
