"""What a cluster on existing hosts is to be: KubeOne's manifest, read strictly, merged with Terraform's outputs, completed and judged.

`load` and `parse` give a Manifest, or raise ManifestError with every mistake and its line.
"""

from __future__ import annotations

from quorate.hosts.manifest.fields import Manifest
from quorate.hosts.manifest.findings import Ignored, ManifestError, Notice, Problem
from quorate.hosts.manifest.host_fields import Host
from quorate.hosts.manifest.loading import load, parse
from quorate.hosts.manifest.values import Opaque, Secret

__all__ = ["Host", "Ignored", "Manifest", "ManifestError", "Notice", "Opaque", "Problem", "Secret", "load", "parse"]
