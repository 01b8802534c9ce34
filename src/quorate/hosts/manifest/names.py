"""The shapes of names, addresses, labels and quantities, as Kubernetes and SSH accept them. Each answers with what is wrong, empty where nothing is.

Source: apimachinery's util/validation for names and labels, resource.Quantity for amounts, RFC 4253 section 6.6 for public keys.
"""

from __future__ import annotations

import ipaddress
import re

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_PERCENTAGE = re.compile(r"(?:100|[0-9]{1,2})(?:\.[0-9]+)?%")
_KEY_TYPE = re.compile(rb"[a-z0-9@.-]{1,64}")
_DOMAIN_LENGTH = 253


def dns_name(text: str) -> str:
    """What is wrong with a DNS name (RFC 1123), which Nodes and clusters must have."""
    if len(text) <= _DOMAIN_LENGTH and _SUBDOMAIN.fullmatch(text):
        return ""
    if text != text.lower() and not dns_name(text.lower()):
        return f"{text} has capitals; Kubernetes accepts {text.lower()}"
    return f"{text} is no DNS name: lower-case letters, digits, '-' and '.', each part from a letter or digit to one, at most 63 long"


def address(text: str) -> Address | None:
    """The IP address that this is; None where it is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def network(text: str) -> Network | None:
    """The IP network that this is, host bits allowed as Go allows them; None where it is none."""
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def dialled(text: str) -> str:
    """What is wrong with what somebody is to connect to: an IP address or a DNS name, capitals allowed."""
    if address(text) or not dns_name(text.lower()):
        if re.fullmatch(r"[0-9.]+", text) and not address(text):
            return f"{text} is no IP address"
        return ""
    return f"{text} is neither an IP address nor a DNS name"


def label_key(text: str) -> str:
    """What is wrong with the key of a label, annotation or taint: a name of at most 63, maybe after a domain and `/`."""
    prefix, slash, name = text.rpartition("/")
    if _NAME_PART.fullmatch(name) and (not slash or not dns_name(prefix)):
        return ""
    return f"{text!r} is no label key such as example.com/name"


def label_value(text: str) -> str:
    """What is wrong with the value of a label or taint."""
    return "" if not text or _NAME_PART.fullmatch(text) else f"{text!r} is no label value: at most 63 letters, digits, '-', '_' and '.'"


def quantity(text: str, *, percentage: bool = False) -> str:
    """What is wrong with an amount such as `200m` or `100Mi`; with `percentage`, `5%` is one too."""
    if _QUANTITY.fullmatch(text) or (percentage and _PERCENTAGE.fullmatch(text)):
        return ""
    return f"{text!r} is no amount such as 200m or 100Mi{' or 5%' if percentage else ''}"


def public_key(key: bytes) -> str:
    """What is wrong with a public key in SSH's wire format, whose first part is the name of its type."""
    length = int.from_bytes(key[:4], "big")
    if len(key) > 4 + length and _KEY_TYPE.fullmatch(key[4 : 4 + length]):
        return ""
    return "is no SSH public key; give the base64 text that follows the type in a .pub file and begins with AAAA"
