"""REST on a simulated API server: paths, verbs, content types and options as the client sends them, and answers as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from quorate.kubernetes.transport import APPLY, JSON_PATCH, MERGE_PATCH, Request
from quorate.simulation.engine.apiserver import ApiServer, Failure
from quorate.simulation.engine.objects import Json, Kind, Stored, matches, parse_selector


@dataclass(frozen=True, slots=True)
class Target:
    """What a path leads to."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str
    query: tuple[tuple[str, str], ...]

    def option(self, name: str) -> str:
        """A parameter of the query; "" where it is not given."""
        return next((value for key, value in self.query if key == name), "")


@lru_cache(maxsize=4096)
def parse(path: str) -> Target:
    """Take a path apart. Raises a Failure (404) for one that no resource has."""
    whole, _, query = path.partition("?")
    parts = whole.split("/")[1:]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise Failure(404, "NotFound", f"there is nothing at {whole}")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, plural, namespace, name, subresource, tuple(parse_qsl(query)))


def is_write(request: Request) -> bool:
    """Whether a request can change something."""
    return request.method != "GET" and not parse(request.path).option("dryRun")


def answer(server: ApiServer, request: Request, who: str) -> bytes:
    """Carry a request out. Raises a Failure."""
    target = parse(request.path)
    kind = kind_of(server, target)
    if request.method == "GET":
        return _encoded(server.with_managed_fields(_get(server, kind, target))) if target.name else _listed(server, kind, target)
    body: Any = msgspec.json.decode(request.body or b"{}")
    if request.method in ("POST", "PUT"):
        return _whole(server, kind, target, request.method, _placed(body, target), who).data
    if request.method == "DELETE":
        preconditions = body.get("preconditions") or {}
        left = server.delete(
            kind,
            target.namespace,
            target.name,
            who=who,
            uid=preconditions.get("uid", ""),
            resource_version=preconditions.get("resourceVersion", ""),
        )
        return left.data if left else _encoded({"kind": "Status", "apiVersion": "v1", "status": "Success"})
    return _patched(server, kind, target, request.content, body, who).data


def kind_of(server: ApiServer, target: Target) -> Kind:
    """The kind that a path speaks of. Raises a Failure (404) where it is not served in this version."""
    kind = server.kind(target.group, target.plural)
    if kind is None or kind.version != target.version:
        raise Failure(404, "NotFound", "the server could not find the requested resource")
    return kind


def _get(server: ApiServer, kind: Kind, target: Target) -> Stored:
    return server.get(kind, target.namespace, target.name)


def _whole(server: ApiServer, kind: Kind, target: Target, method: str, body: Json, who: str) -> Stored:
    """An object created, or replaced; with `dryRun` only as it would be."""
    manager, dry_run = target.option("fieldManager"), bool(target.option("dryRun"))
    write = server.create if method == "POST" else server.replace
    return write(kind, body, who=who, manager=manager, dry_run=dry_run)


def _patched(server: ApiServer, kind: Kind, target: Target, content: str, body: Any, who: str) -> Stored:
    manager, subresource = target.option("fieldManager"), target.subresource
    if content == APPLY:
        force, dry_run = target.option("force") == "true", bool(target.option("dryRun"))
        return server.apply(kind, _placed(body, target), who=who, manager=manager, force=force, subresource=subresource, dry_run=dry_run)
    if content == MERGE_PATCH:
        return server.merge_patch(kind, target.namespace, target.name, body, who=who, subresource=subresource, manager=manager)
    if content == JSON_PATCH:
        return server.json_patch(kind, target.namespace, target.name, body, who=who, subresource=subresource, manager=manager)
    raise Failure(415, "UnsupportedMediaType", f"{content} is not simulated")


def _placed(body: Json, target: Target) -> Json:
    """The body with the namespace of its path, which a client may leave out."""
    return {**body, "metadata": {**body["metadata"], "namespace": target.namespace}} if target.namespace else body


def _listed(server: ApiServer, kind: Kind, target: Target) -> bytes:
    """One page. The token of the next has the version and the last name in it, and expires with the next write: older states are not kept."""
    try:
        labels, fields = parse_selector(target.option("labelSelector")), parse_selector(target.option("fieldSelector"))
    except ValueError as error:
        raise Failure(400, "BadRequest", str(error)) from error
    found = [stored for stored in server.objects(kind, target.namespace) if matches(labels, stored.labels)]
    if fields:
        found = [stored for stored in found if matches(fields, {"metadata.namespace": stored.key[0], "metadata.name": stored.name})]
    version, _, after = target.option("continue").partition(":")
    if after:
        if version != str(server.version):
            raise Failure(410, "Expired", "the continue token is too old")
        found = [stored for stored in found if "/".join(stored.key) > after]
    limit = int(target.option("limit") or 0) or len(found)
    page, rest = found[:limit], found[limit:]
    metadata: Json = {"resourceVersion": str(server.version)}
    if rest:
        metadata["continue"] = f"{server.version}:{'/'.join(page[-1].key)}"
    items = b",".join(stored.data for stored in page)
    return b'{"kind":"%bList","metadata":%b,"items":[%b]}' % (kind.kind.encode(), _encoded(metadata), items)


def _encoded(obj: Any) -> bytes:
    return msgspec.json.encode(obj)
