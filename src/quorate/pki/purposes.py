"""Which key material a cluster needs, where it is stored, and which of it may be generated.

Source: Cluster API's util/secret (consts.go, certificates.go). A Secret is named after the cluster and its purpose; all are generated but those that only an
external etcd's owner can supply.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from quorate.pki.issue import CA_DAYS, generate_ca, generate_service_account
from quorate.pki.keys import KeyAlgorithm, KeyPair


class Purpose(StrEnum):
    """What a pair is for. The value is the suffix of its Secret's name and the word used for it in conditions."""

    CLUSTER_CA = "ca"
    SERVICE_ACCOUNT = "sa"
    FRONT_PROXY_CA = "proxy"
    ETCD_CA = "etcd"
    API_SERVER_ETCD_CLIENT = "apiserver-etcd-client"

    def secret_name(self, cluster_name: str) -> str:
        """The name of the Secret, in the Cluster's namespace."""
        return f"{cluster_name}-{self}"


_GENERATED = (Purpose.CLUSTER_CA, Purpose.SERVICE_ACCOUNT, Purpose.FRONT_PROXY_CA)
_ETCD_OWNERS = (Purpose.ETCD_CA, Purpose.API_SERVER_ETCD_CLIENT)


def purposes(*, external_etcd: bool) -> tuple[Purpose, ...]:
    """Everything a control plane must have before its first machine, in the order in which it is looked up and generated."""
    return (*_GENERATED, *_ETCD_OWNERS) if external_etcd else (*_GENERATED, Purpose.ETCD_CA)


def is_generated(purpose: Purpose, *, external_etcd: bool) -> bool:
    """Whether a missing pair may be made here. An external etcd's CA and client certificate are its owner's to supply."""
    return purpose in _GENERATED or (purpose is Purpose.ETCD_CA and not external_etcd)


def generate(purpose: Purpose, algorithm: KeyAlgorithm, *, now: datetime, days: int = CA_DAYS) -> KeyPair:
    """A fresh pair for `purpose`; `days` is `caCertificateValidityPeriodDays`, and means nothing to the service account pair.

    Raises ValueError for the client certificate of an external etcd, which nobody but its owner can make.
    """
    if purpose is Purpose.API_SERVER_ETCD_CLIENT:
        raise ValueError(f"{purpose} is not generated: the owner of the external etcd supplies it")
    if purpose is Purpose.SERVICE_ACCOUNT:
        return generate_service_account(algorithm)
    return generate_ca(algorithm, now=now, days=days)
