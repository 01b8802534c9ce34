"""Encryption of Secrets in etcd as the manifest says: no API server ever meets a Secret that it cannot read, and no key is removed that one needs."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Unknown
from quorate.core.hosts.encryption import IDENTITY, PLAIN, Change, Configuration, disagreement, label, namesakes, next_change, unreadable
from quorate.core.hosts.rules.facts import leader_last
from quorate.core.hosts.rules.upgrade import bears_restart, nodes_ready, when_nodes_are_ready
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import (
    ChangeEncryption,
    Join,
    Reconfigure,
    RewriteSecrets,
    Step,
    UpdateConfiguration,
    UpgradeControlPlane,
)
from quorate.core.proposal import NOTHING, Proposal, blocking, wanting

KEYS_KNOWN = "the keys that each API server stores Secrets with are known"
KEYS_AGREE = "every API server can read what the others store"
STAYS_READABLE = "the manifest's keys can read what is stored"
ROTATABLE = "there is a key made by quorate to rotate"
STORED_IN_ONE_PLACE = "it is known where etcd keeps encrypted objects"
ENCRYPTION_DIFFERS = "Secrets are not stored as the manifest says"

_NEEDS_KEYS: frozenset[type[Step]] = frozenset(
    {Join, UpgradeControlPlane, UpdateConfiguration, Reconfigure, ChangeEncryption, RewriteSecrets}
)
"""Steps that bring an API server its keys, or decide which it has."""


def agree_about_keys(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Names API servers whose keys are missing, or that cannot read each other's Secrets, and gives none of these keys to another host."""
    if not cluster.stands or not _is_concerned(cluster):
        return NOTHING
    unclear = [(host.name, host.encryption) for host in cluster.control_planes if isinstance(host.encryption, Unknown)]
    if unclear:
        evidence = "; ".join(f"{name}: {what.reason}" for name, what in unclear)
        return blocking(_NEEDS_KEYS, unknown(KEYS_KNOWN, evidence, " ".join(dict.fromkeys(what.remedy for _, what in unclear))))
    if difference := disagreement(cluster.api_servers):
        remedy = "Find out which Secrets can be read through which API server before you change a key file; quorate touches none of them."
        return blocking(_NEEDS_KEYS, failed(KEYS_AGREE, difference, remedy))
    return NOTHING


def encrypt_secrets(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Lets every API server read a key before any writes with it, then rewrites every Secret, and only then removes the old key."""
    if not cluster.stands or not cluster.api_servers:
        return NOTHING
    refused = (*_cannot_rotate(cluster), *_cannot_read(cluster))
    if refused:
        return blocking(frozenset({ChangeEncryption, RewriteSecrets}), *refused)
    ordered = [host.name for host in leader_last(cluster, cluster.control_planes)]
    servers = {name: cluster.api_servers[name] for name in ordered if name in cluster.api_servers}
    change = next_change(servers, cluster.encryption, rotate=cluster.options.rotate_encryption_key and not cluster.rotated)
    if change is None:
        return NOTHING
    if cluster.encryption.unasked:
        remedy = "Leave encryption as it is, or replace keys by hand: quorate can check only one etcd prefix before it removes a key."
        return blocking(frozenset({ChangeEncryption, RewriteSecrets}), failed(STORED_IN_ONE_PLACE, cluster.encryption.unasked, remedy))
    if not isinstance(change, Change):
        return wanting(
            RewriteSecrets(change.provider), passed(ENCRYPTION_DIFFERS, f"some Secrets may not be stored {_told(change.provider)}")
        )
    host = cluster.host(change.host)
    evidence = f"{host.name}: {_in_detail(servers[host.name].configuration)}, next: {_in_detail(change.configuration)}"
    step = ChangeEncryption(host.name, change.configuration)
    proposal: Proposal[Step] = wanting(step, passed(ENCRYPTION_DIFFERS, evidence), nodes_ready(cluster), bears_restart(cluster, host))
    return when_nodes_are_ready(cluster, now, proposal)


def _is_concerned(cluster: Cluster) -> bool:
    """Whether anybody has keys, or is to have some."""
    found = any(each.configuration.keys or each.spare for each in cluster.api_servers.values())
    unclear = any(isinstance(host.encryption, Unknown) for host in cluster.control_planes)
    return found or unclear or cluster.encryption.configuration != PLAIN


def _cannot_rotate(cluster: Cluster) -> tuple[Check, ...]:
    if not cluster.options.rotate_encryption_key or cluster.encryption.configuration is None:
        return ()
    remedy = "Drop --rotate-encryption-key; to replace a key of customEncryptionConfiguration, put the new key first."
    return (failed(ROTATABLE, "features.encryptionProviders is off, or has a configuration of its own", remedy),)


def _cannot_read(cluster: Cluster) -> tuple[Check, ...]:
    wanted = cluster.encryption.configuration
    if wanted is None:
        return ()
    found = [each.configuration for each in cluster.api_servers.values()]
    if clash := namesakes(key for each in (wanted, *found) for key in each.keys):
        return (
            failed(STAYS_READABLE, clash, "In customEncryptionConfiguration give the new key another name, and keep the old key after it."),
        )
    resource = unreadable(wanted, found)
    if not resource:
        return ()
    remedy = f"Keep `identity: {{}}` as the last provider of {resource} in customEncryptionConfiguration."
    return (failed(STAYS_READABLE, f"{resource} may be stored as plain text, which could then no longer be read", remedy),)


def _in_detail(configuration: Configuration) -> str:
    return " then ".join(_told(provider) for provider in configuration.secrets)


def _told(provider: str) -> str:
    return "as plain text" if provider == IDENTITY else f"with key {label(provider)}"
