"""Resets a host: removes every trace of a cluster, so that it can join as if it were new.

A host's etcd data may be the only copy there is. It goes only when the ring, read anew, has no member of this host; kubeadm's own removal of the member is
never let run, since it deletes the data even where it could not ask the ring.
Source: kubeadm 1.34, cmd/kubeadm/app/cmd/phases/reset, for what it cleans and what it says that it does not.
"""

from __future__ import annotations

import re

from quorate.core.health import Absent, Unknown
from quorate.core.hosts import gates
from quorate.core.hosts.steps import Reset
from quorate.hosts.act import kubeadm
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.rings import fresh_ring, known_member, matched, require
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.probe import probe
from quorate.hosts.probe.condition import cas, other_etcd
from quorate.hosts.probe.facts import EtcdData, Fact, HostFacts
from quorate.hosts.probe.parse import parse
from quorate.hosts.render.kubeadm_configuration import CRI_SOCKET
from quorate.hosts.render.shell import quoted

DEADLINE = 300.0
_FOLDER = re.compile(r"(/[\w.-]+){2,}")
"""What may be emptied: no folder of the root folder, and nothing that a shell could take for anything else."""
_LOG_FOLDER = f"{kubeadm.LOG.rpartition('/')[0]}/etcd-log-folder"
"""Has the folder of etcd's log until that is empty, whatever cuts a reset short. Others may have files there: only the log's go."""
_NO_KUBECONFIG = "/etc/kubernetes/quorate/none"  # kubeadm would ask a cluster that may not answer, for nothing that is needed here


async def reset(tools: Tools, step: Reset, observation: Observation) -> None:
    """Free the host, which holds no member. Idempotent. Raises StepFailed where the ring, asked now, has a member of it, or cannot tell."""
    await kubeadm.wait_for_others(tools, step.host)  # it may be about to join
    facts = await _look(tools, step.host, _folder(observation, step.host))
    if isinstance(observation.cluster.ring, Absent):
        _holds_no_data(step.host, facts)
    else:
        await _holds_no_member(tools, step.host, observation, facts)
    await _clean(tools, step.host, facts)


async def clean(tools: Tools, host: str, observation: Observation) -> None:
    """Free the host without asking anybody: for a caller who has proven that no member is on it, or who ends the whole cluster. Idempotent.

    Packages, containerd, settings of the kernel and the network plugin's own configuration stay: the last may be the user's, and whoever writes it otherwise
    writes it again.
    """
    folder = _folder(observation, host)
    await _clean(tools, host, await _look(tools, host, folder if isinstance(folder, str) else probe.DATA_FOLDER))


def _folder(observation: Observation, host: str) -> Fact[str]:
    """Where the host's etcd data were when it was observed."""
    seen = observation.facts[host]
    return seen.etcd_folder if isinstance(seen, HostFacts) else probe.DATA_FOLDER


async def _look(tools: Tools, host: str, otherwise: Fact[str]) -> HostFacts:
    """What the host is at this instant: where its etcd data are (`otherwise`: if no manifest of etcd says so), and whose.

    Raises StepFailed where it does not tell, and SshErrors.
    """
    known = isinstance(otherwise, str) and _is_safe(otherwise)
    text = probe.script((str(otherwise),) if known else (probe.DATA_FOLDER,))
    facts = parse((await tools.look(host, text, doing="the probe", deadline=probe.SCRIPT_DEADLINE)).stdout)
    folder = facts.etcd_folder
    if not known and isinstance(facts.manifest("etcd"), Absent):
        folder = otherwise
    if not isinstance(folder, str) or not _is_safe(folder):
        why = folder.reason if isinstance(folder, Unknown) else f"{folder!r} is not a folder to be emptied"
        raise StepFailed(host, f"not reset, since it is not known where its etcd data are: {why}", "Look at etcd.yaml in its manifests")
    if isinstance(facts.etcd_log_folder, str) and not _is_safe(facts.etcd_log_folder):
        why = f"not reset, since etcd's log is in {facts.etcd_log_folder!r}, which is not a folder to be emptied"
        raise StepFailed(host, why, "Look at etcd.yaml in its manifests")
    return facts


def _is_safe(folder: str) -> bool:
    return _FOLDER.fullmatch(folder) is not None and ".." not in folder


async def _clean(tools: Tools, host: str, facts: HostFacts) -> None:
    tools.report(host, "removing every trace of the cluster")
    log = facts.etcd_log_folder if isinstance(facts.etcd_log_folder, str) else ""
    text = script(str(facts.etcd_folder), log)
    await tools.run(host, text, doing="the reset", deadline=DEADLINE, remedy=f"Look at {kubeadm.LOG} on the host")
    tools.access.forget(host)


def script(folder: str, log_folder: str = "") -> str:
    """The script that resets a host whose etcd data are in this folder, and its log in the other one, if it has one of its own."""
    return f"data={quoted(folder)}\nwal={quoted(log_folder)}\n{_CLEAN}"


async def _holds_no_member(tools: Tools, host: str, observation: Observation, facts: HostFacts) -> None:
    """By its own etcd, by what is on its disk now, and by the manifest; and the others have quorum without it."""
    if isinstance(facts.etcd_identity, Unknown):
        why = f"not reset, since whose the etcd data in {facts.etcd_folder} are is not known: {facts.etcd_identity.reason}"
        raise StepFailed(host, why, "If you do not need them, move them away")
    reading = await fresh_ring(tools, observation)
    etcd = other_etcd(facts, reading.cluster_id)
    if isinstance(etcd, str) and not (observation.cluster.host(host).control_plane and cas(facts)):
        why = f"not reset, since it has an etcd that is not known to be this cluster's: {etcd}"
        raise StepFailed(host, why, "Save its data, and move them away; or run `quorate reset -m MANIFEST` for this host")
    members = matched(tools, observation, reading, **{host: facts})
    member = known_member(host, members)
    if member is not None:
        raise StepFailed(
            host, f"not reset, since etcd has its member {member.label} ({member.id:x})", "The member has to leave the ring first"
        )
    if host in members.apart:
        what = f"its own etcd answers as member {members.apart[host]:x}, which is not in the ring"
        raise StepFailed(host, f"not reset, since {what}", "Find out which ring that is, save its data, and stop it")
    if host in members.unasked:
        raise StepFailed(host, "not reset, since an etcd of another ring runs on it that could not be asked", "Save its data, and stop it")
    if observation.cluster.host(host).control_plane:
        require(host, [gates.reset(reading.ring)])


def _holds_no_data(host: str, facts: HostFacts) -> None:
    """Where no host has a ring, data that is here may be all that is left of one."""
    if isinstance(facts.etcd_data, Absent) or facts.etcd_data is EtcdData.EMPTY:
        return
    remedy = "If you do not need it, run `quorate reset -m MANIFEST` for this host, or move the folder away"
    if isinstance(facts.etcd_data, Unknown):
        raise StepFailed(host, f"not reset, since what is in {facts.etcd_folder} is not known: {facts.etcd_data.reason}", remedy)
    raise StepFailed(
        host, f"not reset, since there is etcd data in {facts.etcd_folder} and no ring that it could be checked against", remedy
    )


_CLEAN = f"""\
umask 077
mkdir -p {kubeadm.LOG.rpartition("/")[0]}
exec 9>>{kubeadm.LOCK}
flock -w 30 9 || {{ echo 'a kubeadm is running' >&2; exit {kubeadm.BUSY}; }}
: >{kubeadm.LOG}
# Its manifest alone names the folder of the log, and kubeadm takes that away.
[ -z "$wal" ] || printf '%s\\n' "$wal" >{_LOG_FOLDER}
if command -v kubeadm >/dev/null; then
    if ! kubeadm reset --force --skip-phases=remove-etcd-member --cleanup-tmp-dir --cri-socket={CRI_SOCKET} --kubeconfig={_NO_KUBECONFIG} \\
        >>{kubeadm.LOG} 2>&1; then
        tail -n 20 {kubeadm.LOG} >&2
        exit 1
    fi
else
    systemctl stop kubelet 2>/dev/null || :
fi
rm -rf -- "$data/member"
if [ -e {_LOG_FOLDER} ]; then
    read -r wal <{_LOG_FOLDER}
    rm -f -- "$wal"/*.wal "$wal"/*.wal.broken "$wal"/*.tmp
    rmdir -- "$wal" 2>/dev/null || :
    rm -f -- {_LOG_FOLDER}
fi
rm -rf -- /etc/kubernetes/pki /etc/kubernetes/quorate /etc/kubernetes/patches /etc/kubernetes/audit /etc/kubernetes/admission \\
    /etc/kubernetes/encryption-providers /var/lib/cni
rm -f -- /etc/kubernetes/*.conf /etc/kubernetes/manifests/*.yaml /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env
for link in cni0 flannel.1 kube-ipvs0 kube-bridge nodelocaldns; do
    ip link delete "$link" 2>/dev/null || :
done
for family in iptables ip6tables; do
    command -v "$family-save" >/dev/null || continue
    rules=$("$family-save" 2>/dev/null) || continue
    case "$rules" in *KUBE-* | *CNI-*) ;; *) continue ;; esac
    printf '%s\\n' "$rules" | grep -v -e KUBE- -e CNI- | "$family-restore" || :
done
for family in ip ip6; do
    command -v nft >/dev/null || continue
    nft delete table "$family" kube-proxy 2>/dev/null || :
done
if command -v ipvsadm >/dev/null; then ipvsadm --clear 2>/dev/null || :; fi
for left in "$data/member" /etc/kubernetes/kubelet.conf /etc/kubernetes/admin.conf /etc/kubernetes/manifests/etcd.yaml /etc/kubernetes/pki/ca.crt; do
    [ ! -e "$left" ] || {{ echo "$left is still there" >&2; exit 1; }}
done
"""
