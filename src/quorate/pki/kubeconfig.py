"""The administrator's kubeconfig: written, checked by its age, and renewed.

Source: Cluster API's util/kubeconfig/kubeconfig.go for names and contents. The client certificate lives 365 days and is renewed at half of that.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from quorate.core import documents
from quorate.pki.certificates import read_certificates
from quorate.pki.issue import issue_client
from quorate.pki.keys import KeyAlgorithm, KeyPair, PkiError

ADMINISTRATOR = "kubernetes-admin"
ADMINISTRATOR_GROUP = "system:masters"
VALIDITY = timedelta(days=365)
RENEWAL = VALIDITY / 2  # how long before its end a client certificate is renewed


def admin_kubeconfig(cluster_name: str, server: str, ca: KeyPair, algorithm: KeyAlgorithm, *, now: datetime) -> bytes:
    """A kubeconfig for `server` (a URL) with a fresh client certificate of the group system:masters, valid from the CA's own start until 365 days hence.

    Keys are sorted, so that equal contents are equal bytes. Raises PkiError if `ca` cannot sign.
    """
    issuer = read_certificates(ca.certificate)[0]
    client = issue_client(
        ca,
        common_name=ADMINISTRATOR,
        organizations=(ADMINISTRATOR_GROUP,),
        algorithm=algorithm,
        not_before=issuer.not_before,
        not_after=now + VALIDITY,
    )
    return _serialize(cluster_name, server, issuer.pem, client)


def rotates_at(kubeconfig: bytes) -> datetime:
    """When the kubeconfig is due for `rotate`: 182.5 days before the first of its client certificates expires. Raises PkiError naming what is malformed."""
    users = _named(_parse(kubeconfig), "users", "user")
    if not users:
        raise PkiError("kubeconfig: users is empty; delete the Secret, and quorate creates it again")
    return min(_expiry(name, user) for name, user in users.items()) - RENEWAL


def rotate(kubeconfig: bytes, ca: KeyPair, algorithm: KeyAlgorithm, *, now: datetime) -> bytes:
    """The same kubeconfig with a fresh client certificate: cluster name and server URL are those of the stored file's current context.

    Raises PkiError naming what is malformed in it, or that `ca` cannot sign.
    """
    name, server = _current_cluster(_parse(kubeconfig))
    return admin_kubeconfig(name, server, ca, algorithm, now=now)


def document(cluster: str, server: str, ca: bytes, *, user: str, credentials: Mapping[str, str], context: str) -> dict[str, Any]:
    """A kubeconfig of one cluster, with its CA in PEM, and of one user, as a document: `credentials` are the user's own fields."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _base64(ca)}}],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
    }


def client_certificate(certificate: bytes, key: bytes) -> dict[str, str]:
    """A user's own fields in a kubeconfig, with a client certificate and its key in PEM."""
    return {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}


def _serialize(cluster_name: str, server: str, ca: bytes, client: KeyPair) -> bytes:
    user = f"{cluster_name}-admin"
    credentials = client_certificate(client.certificate, client.key)
    made = document(cluster_name, server, ca, user=user, credentials=credentials, context=f"{user}@{cluster_name}")
    return documents.dump(made).encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _parse(kubeconfig: bytes) -> Mapping[str, Any]:
    try:
        document = documents.load(kubeconfig, most=documents.MOST_OF_A_TENANT)
    except documents.NotADocument as error:
        raise PkiError(f"kubeconfig: {error}") from None
    if not isinstance(document, Mapping):
        raise PkiError("kubeconfig: not a mapping with clusters, contexts and users")
    return document


def _named(document: Mapping[str, Any], section: str, item: str) -> dict[str, Mapping[str, Any]]:
    """The entries of a section (`users`) by name, each the mapping under `item` (`user`)."""
    entries = document.get(section) or []
    if not isinstance(entries, list):
        raise PkiError(f"kubeconfig: {section} is not a list")
    named = {}
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not isinstance(entry.get(item), Mapping):
            raise PkiError(f"kubeconfig: {section}[{index}] has no name or no {item}")
        named[entry["name"]] = entry[item]
    return named


def _expiry(name: str, user: Mapping[str, Any]) -> datetime:
    where = f"kubeconfig: client-certificate-data of user {name!r}"
    encoded = user.get("client-certificate-data")
    if not isinstance(encoded, str):
        raise PkiError(f"{where}: missing, so that its expiry is not known")
    try:
        pem = base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        raise PkiError(f"{where}: not base64") from None
    return read_certificates(pem, field_name=where)[0].not_after


def _current_cluster(document: Mapping[str, Any]) -> tuple[str, str]:
    """Name and server URL of the cluster that the current context points to."""
    context = _one(_named(document, "contexts", "context"), document.get("current-context"), "current-context names context")
    name = context.get("cluster")
    cluster = _one(_named(document, "clusters", "cluster"), name, "the current context names cluster")
    server = cluster.get("server")
    if not isinstance(server, str) or not server:
        raise PkiError(f"kubeconfig: cluster {name!r} has no server URL")
    return str(name), server


def _one(entries: Mapping[str, Mapping[str, Any]], name: object, relation: str) -> Mapping[str, Any]:
    if not isinstance(name, str) or name not in entries:
        raise PkiError(f"kubeconfig: {relation} {name!r}, which is not in it")
    return entries[name]
