"""The desired cluster on existing hosts: KubeOne's manifest, read strictly, merged with Terraform's outputs, completed and validated.

`parse` gives a Manifest of the text that `read` gives of a file; both raise ManifestError with every mistake and its line.
"""

from __future__ import annotations

from quorate.hosts.manifest.fields import Manifest
from quorate.hosts.manifest.findings import Ignored, ManifestError, Notice, Problem
from quorate.hosts.manifest.host_fields import Host
from quorate.hosts.manifest.loading import parse, read
from quorate.hosts.manifest.values import Opaque, Secret

__all__ = ["Host", "Ignored", "Manifest", "ManifestError", "Notice", "Opaque", "Problem", "Secret", "parse", "read"]
