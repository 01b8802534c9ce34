"""KubeadmConfig, and the specification it shares with the control plane: what kubeadm and a machine's first boot are told.

A KubeadmConfig's `spec` is kept as the dict it came as; `KubeadmConfigSpec` is its published schema. It may carry passwords and file contents, which is why it
stays out of reprs. Source: cluster-api, api/bootstrap/kubeadm/v1beta2/kubeadmconfig_types.go.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import field

from quorate.clusterapi.types.conditions import Deprecated
from quorate.clusterapi.types.kubeadm_cluster import ClusterConfiguration
from quorate.clusterapi.types.kubeadm_node import InitConfiguration, JoinConfiguration
from quorate.clusterapi.types.schema import ApiStruct, group, int32, items, one_of, plain, rule, text
from quorate.kubernetes.objects import Condition, OwnedMeta

PARTITION_TYPE_RULE = rule(
    "self.matches('^(Linux|LinuxSwap|LinuxRAID|LVM|Fat32|NTFS|LinuxExtended|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$')",
    "partitionType must be one of Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended or a full GPT partition GUID",
)
LAYOUT_RULE = rule(
    "[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1",
    "exactly one of the fields in [layout diskLayout] must be set",
)

Command = Annotated[str, text(most=10240)]
Flag = bool | None


class SecretKey(ApiStruct):
    """One key of a Secret in the same namespace."""

    name: Annotated[str, text("The Secret's name.", most=253)]
    key: Annotated[str, text("The key in its data.", most=256)]


class SecretSource(ApiStruct):
    """A value kept in a Secret."""

    secret: Annotated[SecretKey, plain("The Secret and the key.")]


class File(ApiStruct):
    """A file written before kubeadm runs."""

    path: Annotated[str, text("Where it goes, as an absolute path.", most=512)]
    owner: Annotated[str, text("Its owner, such as root:root.", most=256)] = ""
    permissions: Annotated[str, text("Its mode in octal, such as 0640.", most=16)] = ""
    encoding: Annotated[str, one_of("How the content is encoded; not set: not at all.", "base64", "gzip", "gzip+base64")] = ""
    append: Annotated[Flag, plain("Append to the file that is there, instead of replacing it.")] = None
    content: Annotated[str, text("The content itself.", most=10240)] = ""
    content_from: Annotated[SecretSource | None, plain("Where the content is kept, in place of the content itself.")] = None
    content_format: Annotated[
        str, one_of("Taken as it is (Raw, also when not set), or as a Go template of .controlPlane.version.", "Raw", "Template")
    ] = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={self.path!r})"


class User(ApiStruct):
    """A user made on the machine."""

    name: Annotated[str, text("The user's name.", most=256)]
    gecos: Annotated[str, text("The user's comment field.", most=256)] = ""
    groups: Annotated[str, text("Further groups, comma-separated.", most=256)] = ""
    home_dir: Annotated[str, text("The home directory.", most=256)] = ""
    inactive: Annotated[Flag, plain("Make the user unable to log in.")] = None
    shell: Annotated[str, text("The login shell.", most=256)] = ""
    passwd: Annotated[str, text("The hashed password.", most=256)] = ""
    passwd_from: Annotated[SecretSource | None, plain("Where the hashed password is kept, in place of the hash itself.")] = None
    primary_group: Annotated[str, text("The user's own group.", most=256)] = ""
    lock_password: Annotated[Flag, plain("Refuse to log in by password.")] = None
    sudo: Annotated[str, text("The user's rule for sudo.", most=256)] = ""
    ssh_authorized_keys: Annotated[list[Annotated[str, text(most=2048)]], items("Public keys that may log in.", most=100)] = field(
        default_factory=list
    )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


class NTP(ApiStruct):
    """The machine's clock."""

    servers: Annotated[list[Annotated[str, text(most=512)]], items("Time servers.", most=100)] = field(default_factory=list)
    enabled: Annotated[Flag, plain("Keep the clock by NTP.")] = None


class PartitionSpec(ApiStruct):
    """One partition of a disk."""

    percentage: Annotated[int, int32("Its share of the disk, in percent.", least=1, most=100)]
    partition_type: Annotated[
        str, plain("Its type, by name or GUID.", minLength=1, maxLength=36, x_kubernetes_validations=[PARTITION_TYPE_RULE])
    ] = ""


class Partition(ApiStruct):
    """How a disk is partitioned: into one partition (layout) or as a list says (diskLayout)."""

    device: Annotated[str, text("The disk.", most=256)]
    layout: Annotated[Flag, plain("One partition over the whole disk (true), or none.")] = None
    disk_layout: Annotated[list[PartitionSpec], items("The partitions in order.", least=1, most=100)] = field(default_factory=list)
    overwrite: Annotated[Flag, plain("Do it though the disk has partitions already, and lose what is on them.")] = None
    table_type: Annotated[str, one_of("The kind of partition table; not set: mbr.", "mbr", "gpt")] = ""


class Filesystem(ApiStruct):
    """A file system made on a device."""

    device: Annotated[str, text("The device.", most=256)]
    filesystem: Annotated[str, text("The kind of file system.", most=128)]
    label: Annotated[str, text("The file system's label.", most=512)] = ""
    partition: Annotated[str, text("The partition: a number, auto, any or none.", most=128)] = ""
    overwrite: Annotated[Flag, plain("Do it though there is a file system already, and lose what is on it.")] = None
    replace_fs: Annotated[str, text("The kind of file system that may be replaced.", most=128)] = field(default="", name="replaceFS")
    extra_opts: Annotated[list[Annotated[str, text(most=256)]], items("Further options of mkfs.", most=100)] = field(default_factory=list)


class DiskSetup(ApiStruct):
    """The machine's disks."""

    partitions: Annotated[
        list[Annotated[Partition, plain(x_kubernetes_validations=[LAYOUT_RULE])]], items("Disks to partition.", most=100)
    ] = field(default_factory=list)
    filesystems: Annotated[list[Filesystem], items("File systems to make.", most=100)] = field(default_factory=list)


class ContainerLinuxConfig(ApiStruct):
    """What Ignition is told beyond the rest of this specification."""

    additional_config: Annotated[str, text("More configuration, merged in.", most=32768)] = ""
    strict: Annotated[Flag, plain("Take a warning about the configuration for an error.")] = None


class IgnitionSpec(ApiStruct):
    """Settings for the format ignition."""

    container_linux_config: Annotated[ContainerLinuxConfig, group("What Ignition is told beyond the rest.")] = ContainerLinuxConfig()


class KubeadmConfigSpec(ApiStruct):
    """What kubeadm and a machine's first boot are told."""

    cluster_configuration: Annotated[ClusterConfiguration, group("What is the same on every machine.")] = ClusterConfiguration()
    init_configuration: Annotated[InitConfiguration, group("What the first machine is told.")] = InitConfiguration()
    join_configuration: Annotated[JoinConfiguration, group("What the machines that join are told.")] = JoinConfiguration()
    files: Annotated[list[File], items("Files to write.", least=1, most=200)] = field(default_factory=list)
    disk_setup: Annotated[DiskSetup, group("Disks to partition and file systems to make.")] = DiskSetup()
    mounts: Annotated[
        list[Annotated[list[Annotated[str, text(most=512)]], items(least=1, most=100, list_type=None)]],
        items("File systems to mount: the fields of a line of fstab each.", least=1, most=100),
    ] = field(default_factory=list)
    boot_commands: Annotated[list[Command], items("Commands that run early, at every boot.", least=1, most=1000)] = field(
        default_factory=list
    )
    pre_kubeadm_commands: Annotated[list[Command], items("Commands that run before kubeadm.", least=1, most=1000)] = field(
        default_factory=list
    )
    post_kubeadm_commands: Annotated[list[Command], items("Commands that run after kubeadm.", least=1, most=1000)] = field(
        default_factory=list
    )
    users: Annotated[list[User], items("Users to make.", least=1, most=100)] = field(default_factory=list)
    ntp: Annotated[NTP, group("The machine's clock.")] = NTP()
    format: Annotated[str, one_of("The format of the bootstrap data; not set: cloud-config.", "cloud-config", "ignition")] = ""
    verbosity: Annotated[int | None, int32("How much kubeadm logs.")] = None
    ignition: Annotated[IgnitionSpec, group("Settings for the format ignition.")] = IgnitionSpec()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class KubeadmConfigInitialization(ApiStruct):
    """What happens once in a KubeadmConfig's life. None: not said yet."""

    data_secret_created: bool | None = None


class KubeadmConfigStatus(ApiStruct):
    """What was seen of a KubeadmConfig."""

    conditions: list[Condition] = field(default_factory=list)
    initialization: KubeadmConfigInitialization = KubeadmConfigInitialization()
    data_secret_name: str = ""
    deprecated: Deprecated = Deprecated()
    observed_generation: int = 0


class KubeadmConfig(ApiStruct):
    """The bootstrap configuration of one machine."""

    metadata: OwnedMeta
    spec: dict[str, Any] = field(default_factory=dict)
    status: KubeadmConfigStatus = KubeadmConfigStatus()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metadata.namespace}/{self.metadata.name})"
