"""A host freed of every trace of a cluster, so that it can join as if it were new.

A host's etcd data may be the only copy there is. It goes only when the ring, read anew, has no member of this host; kubeadm's own removal of the member is
never let run, since it deletes the data even where it could not ask the ring.
Source: kubeadm 1.34, cmd/kubeadm/app/cmd/phases/reset, for what it cleans and what it says that it does not.
"""

from __future__ import annotations

from quorate.core.health import Absent
from quorate.core.in_place.steps import Reset
from quorate.hosts.act import kubeadm
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.rings import fresh_ring, member_of
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.kubeadm_configuration import CRI_SOCKET

DEADLINE = 300.0
_DATA = "/var/lib/etcd"
_HAS_DATA = f'[ ! -e {_DATA}/member ] || echo "{_DATA}/member"'
_NO_KUBECONFIG = "/etc/kubernetes/quorate/none"  # kubeadm would ask a cluster that may not answer, for nothing that is needed here


async def reset(tools: Tools, step: Reset, observation: Observation) -> None:
    """Free the host, which holds no member. Idempotent. Raises StepFailed where the ring, asked now, has a member of it, or cannot tell."""
    await kubeadm.wait_for_others(tools, step.host)  # it may be about to join
    if isinstance(observation.cluster.ring, Absent):
        await _holds_no_data(tools, step.host)
    else:
        await _holds_no_member(tools, step.host, observation)
    await clean(tools, step.host)


async def clean(tools: Tools, host: str) -> None:
    """Free the host without asking anybody: for a caller who has proven that no member is on it, or who ends the whole cluster. Idempotent.

    Packages, containerd, settings of the kernel and the network plugin's own configuration stay: the last may be the user's, and whoever writes it otherwise
    writes it again.
    """
    tools.report(host, "taking every trace of the cluster away")
    await tools.run(host, _CLEAN, doing="the reset", deadline=DEADLINE, remedy=f"Look at {kubeadm.LOG} on the host")
    tools.access.forget(host)


async def _holds_no_member(tools: Tools, host: str, observation: Observation) -> None:
    reading = await fresh_ring(tools, observation)
    member = member_of(observation.machines[host], reading.ring)
    if member is not None:
        raise StepFailed(
            host, f"not reset, since etcd has its member {member.label} ({member.id:x})", "The member has to leave the ring first"
        )


async def _holds_no_data(tools: Tools, host: str) -> None:
    """Where no host has a ring, data that is here may be all that is left of one."""
    found = await tools.look(host, _HAS_DATA, doing="looking for etcd's data", deadline=30.0)
    if found.stdout.strip():
        remedy = "If you know that it is of no use, run `quorate reset -m MANIFEST` for this host, or move the folder away"
        raise StepFailed(host, f"not reset, since there is etcd data in {_DATA} and no ring that it could be checked against", remedy)


_CLEAN = f"""\
umask 077
mkdir -p {kubeadm.LOG.rpartition("/")[0]}
exec 9>>{kubeadm.LOCK}
flock -w 30 9 || {{ echo 'a kubeadm is running' >&2; exit {kubeadm.BUSY}; }}
data=$(sed -n 's/^ *- *["'"'"']\\{{0,1\\}}--data-dir=\\([^"'"'"']*\\).*/\\1/p' /etc/kubernetes/manifests/etcd.yaml 2>/dev/null | head -n 1)
: >{kubeadm.LOG}
if command -v kubeadm >/dev/null; then
    if ! kubeadm reset --force --skip-phases=remove-etcd-member --cleanup-tmp-dir --cri-socket={CRI_SOCKET} --kubeconfig={_NO_KUBECONFIG} \\
        >>{kubeadm.LOG} 2>&1; then
        tail -n 20 {kubeadm.LOG} >&2
        exit 1
    fi
else
    systemctl stop kubelet 2>/dev/null || :
fi
case "$data" in /*/*) ;; *) data={_DATA} ;; esac
rm -rf -- "$data/member"
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
