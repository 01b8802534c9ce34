"""Asking: may a Machine be updated in place, who says so, and what of the difference would be left over.

What an extension is shown comes from the API itself, with what dry runs make of the objects that would be written, so that neither defaults nor fields of other
controllers look like a difference. Nothing is written. Source: cluster-api v1.14, kubeadmcontrolplane/inplace_canupdatemachine.go.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.foreign import ContractMissing, ForeignObject
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.extensions import hook, machine_objects, registry
from quorate.clusterapi.extensions.answers import Answers
from quorate.clusterapi.extensions.caller import Caller, CallFailed
from quorate.clusterapi.extensions.hook import Failed, MachineObjects, NotAnAnswer, Patches
from quorate.clusterapi.extensions.patches import PatchFailed
from quorate.clusterapi.extensions.registry import Found, Handler, NotConfigured, Unusable
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import FieldManager
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS, MACHINES
from quorate.core.machines.state import Answer, InPlace
from quorate.core.text import printable
from quorate.core.versions import Version
from quorate.kubeadm.config import machine_config
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import Forbidden, Invalid, NotFound
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import Resource

_SEE_THE_EXTENSION = (
    "See what the extension and its ExtensionConfig {} say; it is asked again by itself. Without the ExtensionConfig Machines are replaced."
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A Machine that is not as it should be, with what belongs to it, as the caches have it."""

    kcp: KubeadmControlPlane
    cluster: str
    machine: Machine
    config: KubeadmConfig | None
    infrastructure: ForeignObject | None

    @property
    def request(self) -> Request:
        """The control plane by namespace and name."""
        return Request(self.kcp.metadata.namespace, self.kcp.metadata.name)


class CannotUpdate(Exception):
    """A Machine cannot be updated in place, whoever is asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """Asks extensions, and remembers what they answered."""

    clients: Clients
    caller: Caller
    answers: Answers = field(default_factory=Answers)

    def known(self, subject: Subject, template: ForeignObject | None, *, begun: bool) -> InPlace | None:
        """What is known without asking; None where no extension is meant for it, unless an update was `begun`, which nobody can finish then."""
        found = self._find(subject)
        match found:
            case NotConfigured(reason):
                return InPlace(Answer.NO, reason=reason) if begun else None
            case Unusable(extension, reason, remedy):
                return InPlace(Answer.UNKNOWN, extension, reason, remedy)
        asked = _fingerprint(subject, template, found)
        known = self.answers.of(subject.request, subject.machine.metadata.uid, asked)
        return known or InPlace(Answer.UNASKED, found.name)

    async def ask(self, subject: Subject) -> InPlace:
        """Ask whoever is meant for the Machine, now. Raises nothing for what the API or an extension answers: that is in the answer."""
        found = self._find(subject)
        match found:
            case NotConfigured(reason):
                return InPlace(Answer.NO, reason=reason)
            case Unusable(extension, reason, remedy):
                return InPlace(Answer.UNKNOWN, extension, reason, remedy)
        remedy = _SEE_THE_EXTENSION.format(found.name)
        try:
            current, wanted = await self._objects(subject)
            left = machine_objects.left_over(current, wanted, await self._patches(found, current, wanted))
        except CannotUpdate as error:
            return InPlace(Answer.NO, found.name, printable(str(error)))
        except Failed as error:
            return InPlace(Answer.UNKNOWN, found.name, f"it says that it failed: {error}", remedy)
        except PatchFailed as error:
            return InPlace(Answer.UNKNOWN, found.name, printable(f"it answered with {error}"), remedy)
        except (CallFailed, NotAnAnswer) as error:
            return InPlace(Answer.UNKNOWN, found.name, f"it cannot be asked: {error}", remedy)
        except (*TROUBLE, ContractMissing) as error:
            return InPlace(Answer.UNKNOWN, found.name, printable(f"what it is to be shown could not be read: {error}"), remedy)
        if left:
            return InPlace(Answer.NO, found.name, f"{found.name} leaves over {'; '.join(left)}")
        return InPlace(Answer.YES, found.name)

    def remember(
        self, subject: Subject, template: ForeignObject | None, in_place: InPlace, *, among: Collection[str], now: datetime
    ) -> None:
        """Remember what was answered about a Machine as it was observed; `among` are the uids of all that the control plane has."""
        found = self._find(subject)
        if isinstance(found, Handler):
            uid = subject.machine.metadata.uid
            self.answers.keep(subject.request, uid, _fingerprint(subject, template, found), in_place, now, among=among)

    def _find(self, subject: Subject) -> Found:
        caches, namespace = self.clients.caches, subject.kcp.metadata.namespace
        known = caches.namespaces.get("", namespace)
        return registry.find(caches.extension_configs.items(), namespace, known.metadata.labels if known else None)

    async def _patches(self, handler: Handler, current: MachineObjects, wanted: MachineObjects) -> Patches:
        """Where nobody answers, and failures are to be ignored, no patches: as upstream takes it."""
        try:
            return hook.answer(await self.caller.call(handler, hook.question(current, wanted, handler.settings)))
        except (CallFailed, NotAnAnswer):
            if handler.ignores_failure:
                return hook.NO_PATCHES
            raise

    async def _objects(self, subject: Subject) -> tuple[MachineObjects, MachineObjects]:
        """The current and the desired objects, as they are shown."""
        fields = await self.clients.caches.bootstrap_schema.known_fields()
        kcp, namespace = subject.kcp, subject.kcp.metadata.namespace
        if subject.config is None or subject.infrastructure is None or subject.machine.spec.infrastructure_ref is None:
            raise CannotUpdate("its KubeadmConfig or its infrastructure machine is gone")
        reference = subject.machine.spec.infrastructure_ref
        resource = _plain(await self.clients.caches.foreign.resource(reference.api_group, reference.kind))
        get = self.clients.management.get
        try:
            async with asyncio.TaskGroup() as reads:
                machine = reads.create_task(get(_plain(MACHINES), subject.machine.metadata.name, namespace))
                config = reads.create_task(get(_plain(KUBEADM_CONFIGS), subject.config.metadata.name, namespace))
                infrastructure = reads.create_task(get(resource, subject.infrastructure.metadata.name, namespace))
                body = reads.create_task(infrastructure_body(self.clients, kcp, subject.infrastructure))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        uids = [found["metadata"]["uid"] for found in (machine.result(), config.result(), infrastructure.result())]
        if uids != [subject.machine.metadata.uid, subject.config.metadata.uid, subject.infrastructure.metadata.uid]:
            raise NotFound("the Machine, or what belongs to it, is another one by now")
        labels = {"labels": desired.machine_labels(kcp, subject.cluster), "annotations": desired.machine_annotations(kcp)}
        body_of_config = config_body(kcp, subject.config)
        wanted_config = {**body_of_config, "metadata": body_of_config["metadata"] | labels}
        wanted = await self._dry_run(_plain(MACHINES), desired.machine_in_place(kcp, subject.cluster, subject.machine), namespace)
        then = await self._dry_run_of_infrastructure(resource, body.result(), namespace)
        now = await self._dry_run_of_infrastructure(resource, _as_it_is(infrastructure.result(), body.result()), namespace)
        return machine_objects.shown(
            MachineObjects(machine.result(), now, config.result()), MachineObjects(wanted, then, wanted_config), fields
        )

    async def _dry_run(self, resource: Resource[dict[str, Any]], body: desired.Object, namespace: str) -> dict[str, Any]:
        manager = FieldManager.KUBEADM_CONTROL_PLANE
        return await self.clients.management.apply(resource, body, namespace, field_manager=manager, dry_run=True)

    async def _dry_run_of_infrastructure(self, resource: Resource[dict[str, Any]], body: desired.Object, namespace: str) -> dict[str, Any]:
        """What admission refuses cannot be written when the update begins, so that it cannot begin. Source: cluster-api#13640."""
        try:
            return await self._dry_run(resource, body, namespace)
        except (Invalid, Forbidden) as error:
            raise CannotUpdate(f"{resource.kind} cannot be changed to that: {error}") from error


def config_body(kcp: KubeadmControlPlane, config: KubeadmConfig) -> desired.Object:
    """The KubeadmConfig that the Machine would have if it joined today."""
    return desired.config(kcp, config.metadata.name, initialize=False)


async def infrastructure_body(clients: Clients, kcp: KubeadmControlPlane, found: ForeignObject) -> desired.Object:
    """The infrastructure machine that the template, as the API has it now, makes of one that exists. Raises what the API answers, and CannotUpdate."""
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    templates = await clients.caches.foreign.resource(reference.api_group, reference.kind)
    template = await clients.management.get(templates, reference.name, kcp.metadata.namespace)
    try:
        body = desired.infrastructure(kcp, template, found.metadata.name)
    except ValueError as error:
        raise CannotUpdate(str(error)) from error
    if body["kind"] != found.kind:
        raise CannotUpdate(f"the template makes a {body['kind']}, and the Machine has a {found.kind}")
    return desired.companion_in_place(body, found.metadata, mark=False)


def _as_it_is(found: Mapping[str, Any], wanted: desired.Object) -> desired.Object:
    """An object that exists, to be applied as it is but for the labels and annotations, which are those that are wanted."""
    return {**wanted, "spec": found.get("spec") or {}}


def _plain(resource: Resource[Any]) -> Resource[dict[str, Any]]:
    """The kind, with all of its objects' fields."""
    return replace(resource, type=dict)


def _fingerprint(subject: Subject, template: ForeignObject | None, handler: Handler) -> bytes:
    """Of everything that the answer depends on, as the caches have it."""
    kcp, machine, config, infrastructure = subject.kcp, subject.machine, subject.config, subject.infrastructure
    version = Version.parse(kcp.spec.version)
    asked = [
        *(handler.name, handler.url, handler.generation, handler.ca.hex(), handler.timeout, handler.ignores_failure, handler.settings),
        *(machine.metadata.uid, machine.spec.version, machine.spec.failure_domain, kcp.spec.version),
        *([config.metadata.uid, config.spec] if config else []),
        *([infrastructure.metadata.uid, infrastructure.spec] if infrastructure else []),
        *([template.metadata.uid, template.metadata.name, template.spec] if template else []),
        machine_config(kcp.spec.kubeadm_config_spec, version=version, init=False),
    ]
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).digest()
