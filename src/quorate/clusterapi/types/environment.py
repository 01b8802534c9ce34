"""Environment variables of containers and taints of Nodes, as Kubernetes' core group defines them, for the schemas that carry them.

Source: kubernetes, core/v1 EnvVar and Taint.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from quorate.clusterapi.types.schema import QUANTITY, ApiStruct, atomic, plain


class ConfigMapKeySelector(ApiStruct):
    """One key of a ConfigMap."""

    name: Annotated[str, plain("The ConfigMap's name.", default="")] = ""
    key: Annotated[str, plain("The key.")]
    optional: Annotated[bool | None, plain("May the ConfigMap or the key be missing.")] = None


class SecretKeySelector(ApiStruct):
    """One key of a Secret."""

    name: Annotated[str, plain("The Secret's name.", default="")] = ""
    key: Annotated[str, plain("The key.")]
    optional: Annotated[bool | None, plain("May the Secret or the key be missing.")] = None


class ObjectFieldSelector(ApiStruct):
    """One field of the Pod."""

    api_version: Annotated[str, plain("The version that the path is written for.")] = ""
    field_path: Annotated[str, plain("The field's path.")]


class ResourceFieldSelector(ApiStruct):
    """One resource limit or request of a container."""

    container_name: Annotated[str, plain("The container.")] = ""
    resource: Annotated[str, plain("The resource, such as limits.cpu.")]
    divisor: Annotated[int | str | None, plain("The unit that the value is told in.", pattern=QUANTITY)] = None


class FileKeySelector(ApiStruct):
    """One key of a file of variables on a volume."""

    volume_name: Annotated[str, plain("The volume.")]
    path: Annotated[str, plain("The file's path on the volume.")]
    key: Annotated[str, plain("The key in the file.")]
    optional: Annotated[bool | None, plain("May the file or the key be missing.", default=False)] = None


class EnvVarSource(ApiStruct):
    """Where a variable's value comes from: one of these."""

    config_map_key_ref: Annotated[ConfigMapKeySelector | None, atomic("A ConfigMap.")] = None
    secret_key_ref: Annotated[SecretKeySelector | None, atomic("A Secret.")] = None
    field_ref: Annotated[ObjectFieldSelector | None, atomic("The Pod itself.")] = None
    resource_field_ref: Annotated[ResourceFieldSelector | None, atomic("A container's resources.")] = None
    file_key_ref: Annotated[FileKeySelector | None, atomic("A file.")] = None


class EnvVar(ApiStruct):
    """One environment variable."""

    name: Annotated[str, plain("The variable's name.")]
    value: Annotated[str, plain("Its value.")] = ""
    value_from: Annotated[EnvVarSource | None, plain("Where its value comes from.")] = None


class NodeTaint(ApiStruct):
    """A taint that a Node registers with."""

    key: Annotated[str, plain("The taint's key.")]
    value: Annotated[str, plain("The taint's value.")] = ""
    effect: Annotated[str, plain("What it does to Pods that do not tolerate it.")]
    time_added: Annotated[datetime | None, plain("When it was added.")] = None
