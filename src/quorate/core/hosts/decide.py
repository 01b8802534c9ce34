"""The one next step for a cluster of existing hosts, and why: its table of rules, evaluated as `quorate.core.proposal` says."""

from __future__ import annotations

from datetime import datetime

from quorate.core import proposal
from quorate.core.hosts.rules import (
    clocks,
    configuration,
    encryption,
    found,
    guard,
    join,
    leftovers,
    maintenance,
    members,
    mend,
    repair,
    services,
    settings,
    upgrade,
)
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import EVERYTHING, Step

Decision = proposal.Decision[Step]
"""What to do next with the hosts, and why."""

RULES: tuple[tuple[str, proposal.Rule[Cluster, Step]], ...] = (
    ("work alone", guard.work_alone),
    ("let kubeadm end", guard.let_kubeadm_end),
    ("refuse contradictory hosts", guard.refuse_what_does_not_fit),
    ("refuse hosts of unknown state", guard.refuse_what_is_unknown),
    ("name ambiguous hosts", guard.name_what_is_not_unique),
    ("stop before kubeadm", guard.stop_before_kubeadm),
    ("start services", services.start_services),
    ("keep the quorum", guard.keep_the_quorum),
    ("keep the data", guard.keep_the_data),
    ("keep copies of the data", leftovers.keep_the_copies),
    ("members agree", members.members_agree),
    ("agree on the time", clocks.agree_on_the_time),
    ("need etcd to accept writes", guard.need_writes),
    ("need an API server", guard.need_the_api),
    ("agree about keys", encryption.agree_about_keys),
    ("repair at the running version", join.repair_at_the_running_version),
    ("prepare hosts", found.prepare_hosts),
    ("initialize", found.initialize),
    ("continue the initialization", found.continue_the_initialization),
    ("remove lost members", members.remove_the_lost),
    ("delete Nodes", leftovers.delete_nodes),
    ("reset hosts", leftovers.reset_hosts),
    ("update broken hosts", mend.mend_the_broken),
    ("join control planes", join.join_control_planes),
    ("remove surplus members", members.remove_the_surplus),
    ("join workers", join.join_workers),
    ("repair comes first", repair.repair_comes_first),
    ("workers come first", repair.workers_come_first),
    ("upgrade the control plane", upgrade.upgrade_the_control_plane),
    ("upgrade kubelets", upgrade.upgrade_kubelets),
    ("update the configuration", configuration.update_the_configuration),
    ("reconfigure hosts", settings.reconfigure_hosts),
    ("encrypt Secrets", encryption.encrypt_secrets),
    ("renew certificates", settings.renew_certificates),
    ("let Pods return", maintenance.let_pods_return),
    ("update Nodes", maintenance.update_nodes),
    ("ensure MachineDeployments", maintenance.ensure_machine_deployments),
)
"""In order. The documentation's table is made from this one."""


def decide(cluster: Cluster, now: datetime) -> Decision:
    """The decision for what was observed at `now`. Pure and total."""
    return proposal.judge(RULES, EVERYTHING, cluster, now)


def is_converged(decision: Decision) -> bool:
    """Whether everything that steps can change is as the manifest says: nothing to do, and nothing that stands in the way of more."""
    return decision.step is None and not decision.refusals
