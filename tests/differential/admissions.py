"""Admission reviews side by side: the same request to quorate's server and to upstream's, and what the two answers differ in.

Equal have to be whether it is allowed, the code, the fields of the causes, and the object with the defaults that come back. What differs on purpose
(docs/deviations.md) is reckoned in by the rules at the end, which share nothing with those that are tested.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quorate.clusterapi.api import webhooks
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP
from quorate.kubernetes.errors import AlreadyExists
from quorate.kubernetes.resource import Resource
from tests.differential import reviews
from tests.differential.conversions import differences
from tests.differential.reviews import CONTROL_PLANE, TEMPLATE, Reviewer
from tests.differential.servers import Server, Servers, schemas

Object = dict[str, Any]

AT_ONCE = 8  # reviews under way at each server
_PATHS = {CONTROL_PLANE: webhooks.VALIDATE.path, TEMPLATE: webhooks.VALIDATE_TEMPLATE.path}
_CONTROL_PLANES: Resource[Object] = Resource(CONTROL_PLANE_GROUP, "v1beta2", "kubeadmcontrolplanes", CONTROL_PLANE, dict)
_NAMESPACES: Resource[Object] = Resource("", "v1", "namespaces", "Namespace", dict, namespaced=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of an answer has to be equal."""

    allowed: bool
    code: int
    fields: tuple[str, ...] = ()

    @staticmethod
    def of(response: Object) -> Verdict:
        """The verdict that an answer holds."""
        status = response.get("status") or {}
        causes = (status.get("details") or {}).get("causes") or ()
        return Verdict(response["allowed"], status.get("code", 200), tuple(sorted({cause["field"] for cause in causes})))


@dataclass
class Comparison:
    """What came of it: how many reviews of each sort, how many of them were allowed, what differs on purpose, and what else does."""

    compared: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    on_purpose: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    @property
    def different(self) -> int:
        return len(self.differences)

    def __str__(self) -> str:
        lines = [f"{sort:24} {count:6} reviews, {self.allowed[sort]:5} allowed by both" for sort, count in sorted(self.compared.items())]
        lines += [f"on purpose: {what:60} {count:5}" for what, count in sorted(self.on_purpose.items())]
        return "\n".join([*lines, f"{'in all':24} {self.compared.total():6} reviews, {self.different:5} different"])


@dataclass
class Reviews:
    """Both servers, and what came of comparing them."""

    servers: Servers
    result: Comparison = field(default_factory=Comparison)

    async def create(self, obj: Object) -> None:
        """A creation: defaults first, where the kind has some, then the validation of what came of that."""
        kind = obj["kind"]
        request = {"operation": "CREATE", "object": obj}
        if kind == CONTROL_PLANE:
            request["object"] = await self._default(request)
        await self._compare(f"create {kind}", _PATHS[kind], request)

    async def update(self, old: Object, new: Object) -> None:
        """An update, the same way."""
        kind = new["kind"]
        request = {"operation": "UPDATE", "oldObject": old, "object": new}
        if kind == CONTROL_PLANE:
            request["object"] = await self._default(request)
        await self._compare(f"update {kind}", _PATHS[kind], request)

    async def scale(self, scale: Object) -> None:
        """An update of a scale."""
        request = {"operation": "UPDATE", "object": scale, "name": scale["metadata"]["name"], "namespace": scale["metadata"]["namespace"]}
        await self._compare("scale", webhooks.VALIDATE_SCALE.path, request)

    async def _default(self, request: Object) -> Object:
        """Upstream's object with defaults; the one that was given where it has none."""
        ours, theirs = await self._both(webhooks.DEFAULT.path, request)
        self._note("default", Verdict.of(ours), Verdict.of(theirs), Verdict.of(theirs), request)
        given = request["object"]
        our, their = patched(given, ours), patched(given, theirs)
        if (given.get("spec") or {}).get("version"):
            found = list(differences(our, their))
        else:
            self.result.on_purpose["a version that is not there"] += 1
            found = list(differences(_defaults_of(our), _defaults_of(their)))
        self.result.differences += [f"default, {line}" for line in found]
        return their

    async def _compare(self, sort: str, path: str, request: Object) -> None:
        ours, theirs = await self._both(path, request)
        their = Verdict.of(theirs)
        expected, purposes = on_purpose(their, request)
        self.result.on_purpose.update(purposes)
        self._note(sort, Verdict.of(ours), their, expected, request)

    async def _both(self, path: str, request: Object) -> tuple[Object, Object]:
        ask = (self.servers.quorate.review(path, request), self.servers.upstream.review(path, request))
        ours, theirs = await asyncio.gather(*ask)
        return ours, theirs

    def _note(self, sort: str, ours: Verdict, theirs: Verdict, expected: Verdict, request: Object) -> None:
        self.result.compared[sort] += 1
        self.result.allowed[sort] += ours.allowed and theirs.allowed
        if ours != expected:
            self.result.differences.append(f"{sort}: ours {ours}, upstream's {theirs}, expected {expected}: {json.dumps(request)}")


def patched(obj: Object, response: Object) -> Object:
    """The object with the patch (RFC 6902) of an answer."""
    result: Any = copy.deepcopy(obj)
    for operation in json.loads(base64.b64decode(response["patch"])) if response.get("patch") else ():
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = result
        for part in way:
            target = target[int(part) if isinstance(target, list) else part]
        _apply(target, last, operation)
    return result  # type: ignore[no-any-return]


def _apply(target: Any, last: str, operation: Object) -> None:
    key: Any = last
    if isinstance(target, list):
        key = len(target) if last == "-" else int(last)
        if operation["op"] == "add":
            target.insert(key, operation["value"])
            return
    if operation["op"] == "remove":
        del target[key]
    else:
        target[key] = operation["value"]


async def compare(servers: Servers, *, count: int, seed: int) -> Comparison:
    """So many reviews, of which a third are creations, a third updates, and of the rest half of templates and half of scales."""
    both, reviewer = Reviews(servers), Reviewer(schemas(), random.Random(seed))
    await _make(servers)
    creations, changes = list(reviewer.creations(CONTROL_PLANE, count // 5)), list(reviewer.changes(CONTROL_PLANE, count // 5))
    templates, other_templates = list(reviewer.creations(TEMPLATE, count // 10)), list(reviewer.changes(TEMPLATE, count // 10))
    asked = [
        *(both.create(obj) for obj in (*creations, *templates)),
        *(both.update(old, new) for old, new in (*changes, *other_templates)),
        *(both.scale(scale) for scale in reviewer.scales(count // 10)),
    ]
    for start in range(0, len(asked), AT_ONCE):
        await asyncio.gather(*asked[start : start + AT_ONCE])
    return both.result


async def _make(servers: Servers) -> None:
    """The control planes that are scaled, once upstream's cache has them, too."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": reviews.NAMESPACE}}
    for resource, obj, where in (
        (_NAMESPACES, namespace, ""),
        *((_CONTROL_PLANES, each, reviews.NAMESPACE) for each in reviews.to_be_scaled()),
    ):
        with suppress(AlreadyExists):
            await servers.client.create(resource, obj, where)
    async with asyncio.timeout(30):
        for name in (reviews.STACKED, reviews.EXTERNAL):
            scale = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name, "namespace": reviews.NAMESPACE},
                "spec": {"replicas": 3},
            }
            while not await _knows(servers.upstream, scale):  # noqa: ASYNC110 (another program sets no Event here)
                await asyncio.sleep(0.1)


async def _knows(server: Server, scale: Object) -> bool:
    request = {"operation": "UPDATE", "object": scale}
    return bool((await server.review(webhooks.VALIDATE_SCALE.path, request))["allowed"])


# What differs on purpose.

_RENAMED = (
    (re.compile(r"^(spec\.machineTemplate\.)infrastructure\."), r"\1spec.infrastructureRef."),
    (re.compile(r"\.kubeconfig\.user$"), ".kubeConfig.user"),
)
_STRICT = re.compile(r"v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def on_purpose(theirs: Verdict, request: Object) -> tuple[Verdict, list[str]]:
    """The answer that ours has to be, by upstream's, and which of the purposes it took."""
    if theirs.code not in (200, 422):
        return theirs, []
    new, old = request["object"], request.get("oldObject") or {}
    if new.get("kind") not in _PATHS:
        return theirs, []
    fields, purposes = set(theirs.fields), list[str]()
    for purpose, wanted in _adjusted(fields, new, old):
        if wanted != fields:
            purposes.append(purpose)
            fields = wanted
    return Verdict(not fields, 422 if fields else 200, tuple(sorted(fields))), purposes


def _adjusted(fields: set[str], new: Object, old: Object) -> Iterator[tuple[str, set[str]]]:
    """Each purpose with the fields as it makes them, those of the one before made before."""
    spec, path = _spec_of(new)
    named = {_renamed(each, path) for each in fields}
    yield "a field is named as it is called", named
    if new["kind"] == TEMPLATE and old:
        return
    version, before = (new.get("spec") or {}).get("version") or "", (old.get("spec") or {}).get("version") or ""
    stricter = named | _too_old(version)
    yield "a version older than any that the bootstrap provider configures", stricter
    replaced = stricter | ({f"{path}.rollout.before.certificatesExpiryDays"} if _replaces_for_ever(spec) else set())
    yield "certificates that would be replaced for ever", replaced
    free = replaced
    if old and not _STRICT.fullmatch(before) and _STRICT.fullmatch(version) and not _too_old(version):
        free = replaced - {"spec.version"}
    yield "the way out of a version that is none", free
    yield "a specification that stays", set() if old and _written(old) == _written(new) else free


def _spec_of(obj: Object) -> tuple[Object, str]:
    spec = obj.get("spec") or {}
    if obj["kind"] == TEMPLATE:
        return ((spec.get("template") or {}).get("spec") or {}), "spec.template.spec"
    return spec, "spec"


def _renamed(name: str, path: str) -> str:
    if name == "dns.imageTag":
        return f"{path}.kubeadmConfigSpec.clusterConfiguration.dns.imageTag"
    for pattern, replacement in _RENAMED:
        name = pattern.sub(replacement, name)
    return name


def _too_old(version: str) -> set[str]:
    match = _STRICT.fullmatch(version)
    return {"spec.version"} if match and (int(match[1]), int(match[2])) < (1, 22) else set()


def _replaces_for_ever(spec: Object) -> bool:
    """Whether certificates live no longer than they are to be replaced before they expire; a year where nothing is said of that, and of any rollout."""
    rollout, configuration = spec.get("rollout") or {}, (spec.get("kubeadmConfigSpec") or {}).get("clusterConfiguration") or {}
    expiry = (rollout.get("before") or {}).get("certificatesExpiryDays") or 0
    return expiry >= 365 and bool(rollout.get("strategy")) and not configuration.get("certificateValidityPeriodDays")


def _written(obj: Object) -> Any:
    """A specification without what is empty, of which nothing is left as it is told from nothing."""
    return _without_empty(obj.get("spec"))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, "", None) or (key == "controlPlane" and each == {})}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _defaults_of(obj: Object) -> Object:
    """What is filled in beside the version. Upstream makes `v` of none, and writes the object anew for that: instants in UTC, quantities in their notation."""
    spec = obj.get("spec") or {}
    return {"replicas": spec.get("replicas"), "strategy": (spec.get("rollout") or {}).get("strategy")}
