"""The local management cluster: real etcd, kube-apiserver and Cluster API programs as processes on loopback, and the building of those programs."""

from __future__ import annotations

from quorate.local.cluster import LocalCluster
from quorate.local.demo import DemoCluster
from quorate.local.errors import LocalError
from quorate.local.folder import ControlPlaneProvider
from quorate.local.lifecycle import Status, down, running, status, up
from quorate.local.startup import Options

__all__ = ["ControlPlaneProvider", "DemoCluster", "LocalCluster", "LocalError", "Options", "Status", "down", "running", "status", "up"]
