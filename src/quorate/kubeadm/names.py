"""What control-plane machines are called, and how a control plane's name becomes a label value.

Source: Cluster API's internal/topology/names/names.go (templates), the webhook's validateNaming (what is refused), util/labels/format (label values). Of Go's
text/template only the three documented variables are understood, in any white space and with trim markers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from random import Random

DEFAULT_TEMPLATE = "{{ .kubeadmControlPlane.name }}-{{ .random }}"

_RANDOM = "{{ .random }}"  # upstream looks for exactly this text
_VARIABLES = ("cluster.name", "kubeadmControlPlane.name", "random")
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, and no 0, 1 and 3, so that no words come out
_RANDOM_LENGTH = 5
_MAX_LENGTH = 63  # of a machine's name: it becomes the host name

_ACTION = re.compile(r"(?:\s*\{\{-\s|\{\{)(.*?)(?:\s-\}\}\s*|\}\})", re.DOTALL)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class TemplateError(ValueError):
    """A naming template that cannot be rendered. The message names the variable or the place."""


def machine_name(template: str, *, cluster: str, control_plane: str, random: Random) -> str:
    """A fresh name for a machine and its two companions; an empty template means the default one.

    A name of more than 63 characters is cut to 58 and gets five fresh random ones. Raises TemplateError.
    """
    template = template or DEFAULT_TEMPLATE
    if _RANDOM not in template:
        raise TemplateError(f"machineNaming.template {template!r} lacks {_RANDOM}, without which two machines would have one name")
    values = {"cluster.name": cluster, "kubeadmControlPlane.name": control_plane, "random": _random_part(random)}
    name = _render(template, values)
    return name if len(name) <= _MAX_LENGTH else _shortened(name, _random_part(random))


def template_problems(template: str) -> tuple[str, ...]:
    """What is wrong with `spec.machineNaming.template`, one sentence for each fault; nothing if it is fit for use. An empty template is."""
    if not template:
        return ()
    problems = [] if _RANDOM in template else [f"{_RANDOM} is missing, without which two machines would have one name"]
    try:
        sample = _render(
            template, {"cluster.name": "cluster", "kubeadmControlPlane.name": "kubeadmcontrolplane", "random": _ALPHABET[:_RANDOM_LENGTH]}
        )
    except TemplateError as error:
        return (*problems, str(error))
    if len(sample) > _MAX_LENGTH:
        sample = _shortened(sample, _ALPHABET[:_RANDOM_LENGTH])
    if not _SUBDOMAIN.fullmatch(sample):
        problems.append(f"it makes names such as {sample!r}, which is no lower case RFC 1123 subdomain")
    return tuple(problems)


def label_value(name: str) -> str:
    """The name itself where it is a valid label value, else `hash_<base64url of its 32 bit FNV-1a hash>_z`, as upstream labels machines."""
    if _LABEL_VALUE.fullmatch(name):
        return name
    digest = base64.urlsafe_b64encode(_fnv1a(name.encode()).to_bytes(4, "big"))
    return f"hash_{digest.decode('ascii').rstrip('=')}_z"


def _shortened(name: str, random_part: str) -> str:
    return name[: _MAX_LENGTH - _RANDOM_LENGTH] + random_part


def _random_part(random: Random) -> str:
    return "".join(random.choices(_ALPHABET, k=_RANDOM_LENGTH))


def _render(template: str, values: Mapping[str, str]) -> str:
    """The template with every action replaced; raises TemplateError for an unknown variable and for an action without its end."""

    def value(action: re.Match[str]) -> str:
        expression = action[1].strip()
        if not expression.startswith(".") or expression[1:] not in values:
            known = ", ".join(f".{name}" for name in _VARIABLES)
            raise TemplateError(f"{expression or 'nothing'!r} in {action[0].strip()!r} is none of the variables {known}")
        return values[expression[1:]]

    if "{{" in _ACTION.sub("", template):
        raise TemplateError(f"{template!r} opens an action with '{{{{' and does not close it")
    return _ACTION.sub(value, template)


def _fnv1a(data: bytes) -> int:
    digest = 0x811C9DC5
    for byte in data:
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return digest
