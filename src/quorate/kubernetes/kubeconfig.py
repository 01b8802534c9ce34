"""kubeconfig files, and the service account that a Pod is given: both become a RestConfig.

Source: client-go's tools/clientcmd for how files merge (the first that says something wins) and what a field means.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from quorate.kubernetes.auth import ExecPlugin, FileToken, StaticToken
from quorate.kubernetes.config import ConfigError, Credentials, Impersonation, RestConfig
from quorate.kubernetes.proxy import proxy_for

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Named = Mapping[str, Any]

_KINDS = ("clusters", "contexts", "users")
_TEXTS = (
    *("server", "certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name"),
    *("cluster", "user", "namespace"),
    *("client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile"),
    *("as", "as-uid"),
)
_FIELDS: dict[str, type] = {
    **dict.fromkeys(_TEXTS, str),
    "insecure-skip-tls-verify": bool,
    "exec": dict,
    "extensions": list,
    "as-groups": list,
    "as-user-extra": dict,
}
_TYPE_NAMES: dict[type, str] = {str: "text", bool: "true or false", dict: "a mapping", list: "a list"}


def load(path: str | None = None, context: str | None = None) -> RestConfig:
    """The configuration of `path`, or of the files in KUBECONFIG, or of ~/.kube/config, or of the Pod this runs in; the first that there is.

    Raises ConfigError naming the file and what is wrong with it.
    """
    return replace(_load(path, context), reread=partial(_load, path, context))


def _load(path: str | None, context: str | None) -> RestConfig:
    if path:
        return parse(_read(Path(path)), context, source=path, folder=Path(path).parent)
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    files = [file for file in listed or [Path.home() / ".kube" / "config"] if file.exists()]
    if files:
        merged = _merge([_absolute(_document(_read(file), str(file)), file.parent) for file in files])
        return _resolve(merged, context, ", ".join(map(str, files)), Path())
    if listed:
        raise ConfigError(f"no kubeconfig: KUBECONFIG names {os.environ['KUBECONFIG']}, which is not there")
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return in_cluster()
    raise ConfigError("no kubeconfig: give --kubeconfig, or set KUBECONFIG, or make ~/.kube/config")


def parse(data: bytes, context: str | None = None, *, source: str = "the kubeconfig", folder: Path = Path()) -> RestConfig:
    """The configuration in one document; relative file names in it start from `folder`."""
    return _resolve(_document(data, source), context, source, folder)


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> RestConfig:
    """The service account of the Pod this runs in; its token is read again every minute, because the kubelet renews it."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("not in a Pod: KUBERNETES_SERVICE_HOST is not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = folder / "namespace"
    return RestConfig(
        server=server,
        ca=_read(folder / "ca.crt"),
        credentials=FileToken(folder / "token"),
        proxy_url=proxy_for(server, os.environ),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _resolve(document: Named, context: str | None, source: str, folder: Path) -> RestConfig:
    chosen = context or document.get("current-context") or ""
    if not chosen:
        raise ConfigError(f"{source}: no current-context is set; choose one with --context")
    around = _entry(document, "contexts", "context", chosen, source)
    cluster = _entry(document, "clusters", "cluster", around.get("cluster") or "", source)
    user = _entry(document, "users", "user", around.get("user", ""), source) if around.get("user") else {}
    if not cluster.get("server"):
        raise ConfigError(f"{source}: cluster {around.get('cluster')!r} has no server")
    certificate, key = _material(user, "client-certificate", source, folder), _material(user, "client-key", source, folder)
    if bool(certificate) != bool(key):
        raise ConfigError(f"{source}: user {around['user']!r} has a client certificate or a client key without the other")
    return RestConfig(
        server=cluster["server"],
        ca=_material(cluster, "certificate-authority", source, folder),
        certificate=certificate,
        key=key,
        credentials=_credentials(user, cluster, source, folder),
        impersonation=_impersonation(user, f"{source}: user {around.get('user')!r}"),
        proxy_url=_proxy_url(cluster, source),
        tls_server_name=cluster.get("tls-server-name") or "",
        insecure=cluster.get("insecure-skip-tls-verify") or False,
        namespace=around.get("namespace") or "default",
    )


def _credentials(user: Named, cluster: Named, source: str, folder: Path) -> Credentials | None:
    if user.get("username") or user.get("auth-provider"):
        raise ConfigError(
            f"{source}: user names with passwords and auth-provider are not supported; use a token, a certificate or an exec plugin"
        )
    if user.get("tokenFile"):  # before a token: client-go starts with the token, and goes by the file from then on
        return FileToken(folder / user["tokenFile"])
    if user.get("token"):
        return StaticToken(user["token"])
    if user.get("exec"):
        return ExecPlugin(user["exec"], _with_ca(cluster, source, folder), source=source, folder=folder)
    return None


def _impersonation(user: Named, what: str) -> Impersonation | None:
    """As whom the user acts. Raises ConfigError for what is not a list of texts, and for groups, a uid or extra fields without a user, as client-go does."""
    groups, extra = user.get("as-groups") or [], user.get("as-user-extra") or {}
    if not all(isinstance(group, str) for group in groups):
        raise ConfigError(f"{what}: as-groups is not a list of texts")
    if not all(
        isinstance(key, str) and isinstance(each, list) and all(isinstance(text, str) for text in each) for key, each in extra.items()
    ):
        raise ConfigError(f"{what}: as-user-extra is not a mapping to lists of texts")
    if user.get("as"):
        return Impersonation(user["as"], user.get("as-uid") or "", tuple(groups), {key: tuple(each) for key, each in extra.items()})
    if groups or extra or user.get("as-uid"):
        raise ConfigError(f"{what} has as-uid, as-groups or as-user-extra without as: name the user to act as")
    return None


def _with_ca(cluster: Named, source: str, folder: Path) -> Named:
    """The cluster with the CA's certificate in it, where that is in a file: a plugin is told data alone."""
    ca = _material(cluster, "certificate-authority", source, folder)
    return {**cluster, "certificate-authority-data": base64.b64encode(ca).decode()}


def _proxy_url(cluster: Named, source: str) -> str:
    """The cluster's own proxy, or else the environment's for its server."""
    url: str = cluster.get("proxy-url") or ""
    if not url:
        return proxy_for(cluster["server"], os.environ)
    if urlsplit(url).scheme != "http":
        raise ConfigError(f"{source}: the proxy-url of {cluster['server']} is not supported; use one that begins with http://")
    return url


def _material(entry: Named, name: str, source: str, folder: Path) -> bytes:
    if entry.get(f"{name}-data"):
        try:
            return base64.b64decode(entry[f"{name}-data"], validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ConfigError(f"{source}: {name}-data is not base64: {error}") from error
    return _read(folder / entry[name]) if entry.get(name) else b""


def _entry(document: Named, kind: str, inner: str, name: str, source: str) -> Named:
    entries = document.get(kind) or ()
    for entry in entries:
        if entry.get("name") == name:
            _check_fields(entry.get(inner) or {}, f"{source}: {inner} {name!r}")
            return entry.get(inner) or {}
    known = ", ".join(sorted(str(entry.get("name")) for entry in entries)) or "none"
    raise ConfigError(f"{source}: there is no {inner} {name!r} (there are: {known})")


def _check_fields(entry: Any, what: str) -> None:
    """Raise ConfigError where a field that is read has not its type: `"false"` in quotes must not pass for true. Never shows a value."""
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{what} is not a mapping")
    for name, type_ in _FIELDS.items():
        if not isinstance(entry.get(name), type_ | None):
            raise ConfigError(f"{what}: {name} is not {_TYPE_NAMES[type_]}")


def _document(data: bytes, source: str) -> dict[str, Any]:
    try:
        document = yaml.load(data, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not YAML{_place(error)}") from None  # the error quotes the line, and a key may be in it
    document = {} if document is None else document  # kubectl takes an empty file too: it makes one before it writes
    if not isinstance(document, dict) or not all(_is_list_of_mappings(document.get(kind) or []) for kind in _KINDS):
        raise ConfigError(f"{source} is not a kubeconfig: it has no lists of clusters, contexts and users")
    return document


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f": line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _is_list_of_mappings(entries: Any) -> bool:
    return isinstance(entries, list) and all(isinstance(entry, Mapping) for entry in entries)


def _merge(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """One document out of several: of every name and setting, the first file's."""
    merged: dict[str, Any] = {kind: [entry for document in documents for entry in document.get(kind) or ()] for kind in _KINDS}
    return merged | {"current-context": next(filter(None, (document.get("current-context") for document in documents)), "")}


def _absolute(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """File names made absolute, since each file's start from its own folder."""
    for entry in document.get("clusters") or ():
        _make_absolute(entry.get("cluster"), ("certificate-authority",), folder)
    for entry in document.get("users") or ():
        user = entry.get("user")
        _make_absolute(user, ("client-certificate", "client-key", "tokenFile"), folder)
        plugin = user.get("exec") if isinstance(user, dict) else None
        if isinstance(plugin, dict) and os.sep in str(plugin.get("command")):
            _make_absolute(plugin, ("command",), folder)
    return document


def _make_absolute(entry: Any, fields: tuple[str, ...], folder: Path) -> None:
    for name in fields:
        if isinstance(entry, dict) and entry.get(name) and isinstance(entry[name], str):
            entry[name] = str((folder / entry[name]).absolute())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
