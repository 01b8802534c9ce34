"""The shapes of names, addresses, registries, paths, labels and quantities, as whoever reads them accepts them. Each answers with what is wrong, empty where
nothing is. This is the one place that decides it, for manifests and for what hosts say of themselves.

Source: apimachinery's util/validation for names and labels, resource.Quantity for amounts, RFC 4253 section 6.6 for public keys, the grammar of
github.com/distribution/reference for images.
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
_REGISTRY = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_REGISTRY}(?:/{_COMPONENT})*")
_IMAGE = re.compile(rf"(?:{_REGISTRY}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?")
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9_.@%+=:,\[\]-]+)+")
_NOT_FOR_OTHERS = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "sbin", "sys", "usr")
_ONLY_BELOW = ("/home", "/media", "/mnt", "/opt", "/run", "/srv", "/tmp", "/var", "/var/cache", "/var/lib", "/var/run", "/var/spool")  # noqa: S108 (named, not used)
_KUBERNETES = ("/var/lib/etcd", "/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/var/run/containerd", "/run/quorate")


def dns_name(text: str) -> str:
    """What is wrong with a DNS name (RFC 1123), which Nodes and clusters must have."""
    if len(text) <= _DOMAIN_LENGTH and _SUBDOMAIN.fullmatch(text):
        return ""
    if text != text.lower() and not dns_name(text.lower()):
        return f"{text} has capitals; Kubernetes accepts {text.lower()}"
    return f"{text} is not a DNS name: lower-case letters, digits, '-' and '.', each part from a letter or digit to one, at most 63 long"


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
            return f"{text} is not an IP address"
        return ""
    return f"{text} is neither an IP address nor a DNS name"


def label_key(text: str) -> str:
    """What is wrong with the key of a label, annotation or taint: a name of at most 63, maybe after a domain and `/`."""
    prefix, slash, name = text.rpartition("/")
    if _NAME_PART.fullmatch(name) and (not slash or not dns_name(prefix)):
        return ""
    return f"{text!r} is not a label key such as example.com/name"


def label_value(text: str) -> str:
    """What is wrong with the value of a label or taint."""
    return "" if not text or _NAME_PART.fullmatch(text) else f"{text!r} is not a label value: at most 63 letters, digits, '-', '_' and '.'"


def quantity(text: str, *, percentage: bool = False) -> str:
    """What is wrong with an amount such as `200m` or `100Mi`; with `percentage`, `5%` is one too."""
    if _QUANTITY.fullmatch(text) or (percentage and _PERCENTAGE.fullmatch(text)):
        return ""
    return f"{text!r} is not an amount such as 200m or 100Mi{' or 5%' if percentage else ''}"


def line(text: str) -> str:
    """What is wrong with a text of which there is to be one line: whoever reads it on a host, or on a terminal, would take the rest for something else."""
    return "" if text.isprintable() else "has a line break, or another character that cannot be printed; take it out"


def repository(text: str) -> str:
    """What is wrong with a registry, or a place in it that images are in: `registry.example.com:5000/mirror`."""
    if _REPOSITORY.fullmatch(text):
        return ""
    return f"{text!r} is not a registry such as registry.example.com:5000, or a place in it: a host, maybe a port, and names of small letters after each '/'"


def mirror(text: str) -> str:
    """What is wrong with a mirror of a registry: like a repository, with capitals allowed in its path, and maybe `https://` or `http://` before it."""
    scheme, separator, rest = text.rpartition("://")
    host, _, path = rest.partition("/")
    if (
        (not separator or scheme in ("http", "https"))
        and re.fullmatch(_REGISTRY, host)
        and (not path or _PATH.fullmatch(f"/{path.rstrip('/')}"))
    ):
        return ""
    return f"{text!r} is not a mirror such as https://mirror.example.com:5000/docker"


def image(text: str) -> str:
    """What is wrong with the name of an image."""
    return "" if _IMAGE.fullmatch(text) else f"{text!r} is not an image such as registry.k8s.io/pause:3.10"


def path(text: str) -> str:
    """What is wrong with the path of a file on a host: absolute, as it is written after all links of `..` and `.` are gone, and without odd characters."""
    if _PATH.fullmatch(text):
        return ""
    return (
        f"{text!r} is not a path of a file such as /var/log/audit.log: absolute, without '..', blanks and other characters that shells read"
    )


def mounted(text: str, *, shared: bool = False) -> str:
    """What is wrong with a file whose whole folder becomes the API server's to write to: it must not be the system's own nor, unless it is `shared`, one that
    everybody has files in.
    """
    if problem := path(text):
        return problem
    folder = text.rpartition("/")[0]
    if (
        not folder
        or (folder in _ONLY_BELOW and not shared)
        or folder.split("/")[1] in _NOT_FOR_OTHERS
        or any(f"{folder}/".startswith(f"{each}/") for each in _KUBERNETES)
    ):
        return f"{text} is in {folder or '/'}, which would be the API server's to write to as a whole; give it a folder of its own, such as /var/log/kubernetes"
    return ""


def public_key(key: bytes) -> str:
    """What is wrong with a public key in SSH's wire format, whose first part is the name of its type."""
    length = int.from_bytes(key[:4], "big")
    if len(key) > 4 + length and _KEY_TYPE.fullmatch(key[4 : 4 + length]):
        return ""
    return "is not an SSH public key; give the base64 text that follows the type in a .pub file and begins with AAAA"
