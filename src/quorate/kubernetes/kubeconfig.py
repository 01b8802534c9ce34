"""kubeconfig files, and the service account that a Pod is given: both become a RestConfig.

Source: client-go's tools/clientcmd for how files merge (the first that says something wins) and what a field means.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from quorate.kubernetes.auth import ExecPlugin, FileToken, StaticToken
from quorate.kubernetes.config import ConfigError, Credentials, RestConfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Named = Mapping[str, Any]


def load(path: str | None = None, context: str | None = None) -> RestConfig:
    """The configuration of `path`, or of the files in KUBECONFIG, or of ~/.kube/config, or of the Pod this runs in; the first that there is.

    Raises ConfigError naming the file and what is wrong with it.
    """
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
        authority=_read(folder / "ca.crt"),
        credentials=FileToken(folder / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _resolve(document: Named, context: str | None, source: str, folder: Path) -> RestConfig:
    chosen = context or document.get("current-context") or ""
    if not chosen:
        raise ConfigError(f"{source}: no current-context is set; choose one with --context")
    around = _entry(document, "contexts", "context", chosen, source)
    cluster = _entry(document, "clusters", "cluster", around.get("cluster", ""), source)
    user = _entry(document, "users", "user", around.get("user", ""), source) if around.get("user") else {}
    if not cluster.get("server"):
        raise ConfigError(f"{source}: cluster {around.get('cluster')!r} has no server")
    return RestConfig(
        server=cluster["server"],
        authority=_material(cluster, "certificate-authority", source, folder),
        certificate=_material(user, "client-certificate", source, folder),
        key=_material(user, "client-key", source, folder),
        credentials=_credentials(user, cluster, source, folder),
        proxy_url=cluster.get("proxy-url", ""),
        tls_server_name=cluster.get("tls-server-name", ""),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        namespace=around.get("namespace") or "default",
    )


def _credentials(user: Named, cluster: Named, source: str, folder: Path) -> Credentials | None:
    if user.get("username") or user.get("auth-provider"):
        raise ConfigError(
            f"{source}: user names with passwords and auth-provider are not supported; use a token, a certificate or an exec plugin"
        )
    if user.get("token"):
        return StaticToken(user["token"])
    if user.get("tokenFile"):
        return FileToken(folder / user["tokenFile"])
    if user.get("exec"):
        return ExecPlugin(user["exec"], cluster, source=source, folder=folder)
    return None


def _material(entry: Named, name: str, source: str, folder: Path) -> bytes:
    if entry.get(f"{name}-data"):
        try:
            return base64.b64decode(entry[f"{name}-data"], validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ConfigError(f"{source}: {name}-data is not base64: {error}") from error
    return _read(folder / entry[name]) if entry.get(name) else b""


def _entry(document: Named, kind: str, inner: str, name: str, source: str) -> Named:
    for entry in document.get(kind) or ():
        if isinstance(entry, Mapping) and entry.get("name") == name and isinstance(entry.get(inner) or {}, Mapping):
            return entry.get(inner) or {}
    known = ", ".join(sorted(str(entry.get("name")) for entry in document.get(kind) or () if isinstance(entry, Mapping))) or "none"
    raise ConfigError(f"{source}: there is no {inner} {name!r} (there are: {known})")


def _document(data: bytes, source: str) -> dict[str, Any]:
    try:
        document = yaml.load(data, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not YAML: {error}") from error
    if not isinstance(document, dict) or not all(isinstance(document.get(kind) or [], list) for kind in ("clusters", "contexts", "users")):
        raise ConfigError(f"{source} is not a kubeconfig: it has no lists of clusters, contexts and users")
    return document


def _merge(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """One document out of several: of every name and setting, the first file's."""
    merged: dict[str, Any] = {"clusters": [], "contexts": [], "users": []}
    for document in documents:
        merged.setdefault("current-context", document.get("current-context") or None)
        merged["current-context"] = merged["current-context"] or document.get("current-context")
        for kind in ("clusters", "contexts", "users"):
            merged[kind] += document.get(kind) or []
    return merged


def _absolute(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """File names made absolute, since each file's start from its own folder."""
    names = {"clusters": ("cluster", ("certificate-authority",)), "users": ("user", ("client-certificate", "client-key", "tokenFile"))}
    for kind, (inner, fields) in names.items():
        for entry in document.get(kind) or ():
            for field in fields:
                if (entry.get(inner) or {}).get(field):
                    entry[inner][field] = str((folder / entry[inner][field]).absolute())
    return document


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
