"""kubeadm's configuration as Cluster API carries it: what one machine gets, when two configurations differ, and how machines are named. Pure; plain dicts."""

from __future__ import annotations

from quorate.kubeadm.compare import Difference, differences
from quorate.kubeadm.config import api_version, etcd_is_managed, is_join, machine_config
from quorate.kubeadm.names import DEFAULT_TEMPLATE, TemplateError, label_value, machine_name, template_problems

__all__ = [
    "DEFAULT_TEMPLATE",
    "Difference",
    "TemplateError",
    "api_version",
    "differences",
    "etcd_is_managed",
    "is_join",
    "label_value",
    "machine_config",
    "machine_name",
    "template_problems",
]
