"""The files beside the manifest that features name, read from the operator's disk."""

from __future__ import annotations

from pathlib import Path

from quorate.hosts.manifest import Manifest, ManifestError, Problem
from quorate.hosts.manifest.findings import Mark
from quorate.hosts.manifest.named_files import content_of
from quorate.hosts.render.feature_files import Contents


def read(manifest: Manifest) -> Contents:
    """What those files hold, of the features that are on. Raises ManifestError naming the field and the file that cannot be read."""
    features = manifest.features
    audit, rate, selector = features.static_audit_log, features.event_rate_limit, features.pod_node_selector
    wanted = {
        "features.staticAuditLog.config.policyFilePath": audit.config.policy_file_path if audit.enable else "",
        "features.eventRateLimit.config.configFilePath": rate.config.config_file_path if rate.enable else "",
        "features.podNodeSelector.config.configFilePath": selector.config.config_file_path if selector.enable else "",
    }
    problems: list[Problem] = []
    audit_policy, rates, selectors = (_content(field, path, problems) for field, path in wanted.items())
    if problems:
        raise ManifestError(tuple(problems))
    return Contents(audit_policy, rates, selectors)


def _content(field: str, path: str, problems: list[Problem]) -> bytes | None:
    if not path:
        return None
    try:
        return content_of(Path(path))
    except OSError as error:
        problems.append(Problem(field, f"{path} cannot be read: {error.strerror}", Mark("the manifest")))
        return None
