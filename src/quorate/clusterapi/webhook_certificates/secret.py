"""The Secret that the certificates are kept in: read into a State, and what each step writes.

`ca.crt` holds every CA that is trusted, the newest first, `ca.key` the key of that one; `tls.crt` and `tls.key` are what is presented. The key of a CA goes
when a newer one is made. What cannot be used is as if it were not there: a Secret that somebody emptied is filled again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from quorate.clusterapi.webhook_certificates.state import Authority, Leaf, Life, Policy, State, Step
from quorate.pki import Certificate, KeyAlgorithm, KeyPair, PkiError, generate_ca, issue_server, read_certificates, verify_pair
from quorate.pki.issue import CLOCK_SKEW
from quorate.pki.keys import CERTIFICATE_FIELD, KEY_FIELD

NAME = "quorate-webhook-certificates"
"""Of the Secret, in the manager's own namespace."""
CA_FIELD, CA_KEY_FIELD = "ca.crt", "ca.key"
_ALGORITHM = KeyAlgorithm.ECDSA_P256
_CA_NAME, _LEAF_NAME = "quorate-webhook-ca", "quorate-webhooks"
"""Common names, which nobody goes by: the names that are served have more than the 64 characters that one may have."""

_log = structlog.get_logger(__name__)

Data = Mapping[str, bytes]


def read(data: Data, told: Iterable[frozenset[bytes]] = ()) -> State:
    """What is stored, with what the API server was told."""
    authorities = _authorities(data)
    return State(tuple(_authority(each) for each in authorities), _leaf(data, authorities), tuple(told))


def _authorities(data: Data) -> tuple[Certificate, ...]:
    """The CAs; none where the newest cannot sign."""
    if not data.get(CA_FIELD):
        return ()
    try:
        verify_pair(KeyPair(data[CA_FIELD], data.get(CA_KEY_FIELD, b"")))
        return read_certificates(data[CA_FIELD], field_name=CA_FIELD)
    except PkiError as error:
        _log.warning("the CA of the webhooks cannot be used and is made anew", secret=NAME, error=str(error))
        return ()


def _authority(certificate: Certificate) -> Authority:
    return Authority(certificate.pem, _life(certificate))


def _leaf(data: Data, authorities: Iterable[Certificate]) -> Leaf | None:
    if not data.get(CERTIFICATE_FIELD):
        return None
    try:
        verify_pair(KeyPair(data[CERTIFICATE_FIELD], data.get(KEY_FIELD, b"")))
        certificate = read_certificates(data[CERTIFICATE_FIELD])[0]
    except PkiError as error:
        _log.warning("the certificate of the webhooks cannot be used and is made anew", secret=NAME, error=str(error))
        return None
    signer = next((each.pem for each in authorities if _signed(certificate, each)), None)
    return Leaf(_life(certificate), certificate.names, signer)


def _signed(certificate: Certificate, authority: Certificate) -> bool:
    leaf, issuer = (x509.load_der_x509_certificate(each.der) for each in (certificate, authority))
    try:
        leaf.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _life(certificate: Certificate) -> Life:
    return Life(certificate.not_before, certificate.not_after, certificate.not_before + CLOCK_SKEW)


def after(step: Step, data: Data, names: Iterable[str], now: datetime, policy: Policy) -> dict[str, bytes]:
    """What the Secret is to hold after a step. Raises PkiError where the stored CA cannot sign."""
    match step:
        case Step.MAKE_AUTHORITY:
            made = generate_ca(_ALGORITHM, now=now, days=policy.authority.days, common_name=_CA_NAME)
            older = [each.pem for each in _authorities(data) if each.not_after > now]
            return {**data, CA_FIELD: b"".join((made.certificate, *older)), CA_KEY_FIELD: made.key}
        case Step.MAKE_LEAF:
            return {**data, **_issue(data, sorted(names), now, policy).secret_data()}
        case Step.FORGET_AUTHORITIES:
            return {**data, CA_FIELD: _authorities(data)[0].pem}


def _issue(data: Data, names: list[str], now: datetime, policy: Policy) -> KeyPair:
    return issue_server(
        KeyPair(data[CA_FIELD], data[CA_KEY_FIELD]),
        common_name=_LEAF_NAME,
        dns_names=names,
        algorithm=_ALGORITHM,
        not_before=now - CLOCK_SKEW,
        not_after=now + policy.leaf,
    )
