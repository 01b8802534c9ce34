"""Updates the one host that an upgrade or a setting broke, and no other, so that a corrected mistake or an interruption ends well."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import Check, failed, passed
from quorate.core.hosts.rules.configuration import after_the_configuration
from quorate.core.hosts.rules.facts import data_lost, ills, names
from quorate.core.hosts.rules.upgrade import bears_restart, is_under_way, to_upgrade
from quorate.core.hosts.state import UNTOUCHED, Cluster, Host, Kind
from quorate.core.hosts.steps import Reconfigure, Step
from quorate.core.proposal import NOTHING, Proposal, wanting

HALF_WAY = "a broken host differs from what is desired"
SAME_VERSION = "repair and upgrade are not mixed"
OTHERS_WELL = "every other control plane host is well"


def mend_the_broken(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Updates a broken control plane host that is behind in an upgrade, or differs from the manifest, while all others are healthy.

    The others serve, and have quorum without it: what is done to it costs nothing that is not lost already. It comes before others join, since they would get
    the setting that broke it from the cluster; they do not count until they have joined.
    """
    if not cluster.stands:
        return NOTHING
    broken = [host for host in cluster.control_planes if host.kind is Kind.BROKEN and not data_lost(host)]
    half_way = [host for host in broken if _is_behind(cluster, host) or (host.components == cluster.version and host.drift)]
    if not half_way:
        return Proposal(checks=tuple(_at_its_version(cluster, host) for host in broken if host.drift and host.components is not None))
    host = half_way[0]
    others = _others_well(cluster, host)
    if _is_behind(cluster, host):
        return to_upgrade(cluster, host, passed(HALF_WAY, f"{host.name} has {host.components}, wanted is {cluster.version}"), others)
    proposal = wanting(
        Reconfigure(host.name), passed(HALF_WAY, f"{host.name}: {'; '.join(host.drift)}"), others, bears_restart(cluster, host)
    )
    return after_the_configuration(proposal, cluster.configuration_drift)


def _at_its_version(cluster: Cluster, host: Host) -> Check:
    evidence = f"{host.name} differs from the manifest and has {host.components}, the manifest says {cluster.version}"
    return failed(SAME_VERSION, evidence, f"Set versions.kubernetes to {host.components}, repair, then upgrade.")


def _is_behind(cluster: Cluster, host: Host) -> bool:
    return host.components is not None and host.components < cluster.version and is_under_way(cluster)


def _others_well(cluster: Cluster, host: Host) -> Check:
    ill = [other for other in cluster.control_planes if other is not host and other.kind not in UNTOUCHED and ills(other)]
    if ill:
        return failed(OTHERS_WELL, f"not {names(ill)}")
    return passed(OTHERS_WELL, f"beside {host.name}")
