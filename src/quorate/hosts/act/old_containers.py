"""Stops the containers that `kubeadm upgrade` replaces on a host as soon as no client can use them: most of an upgrade is waiting for them to end.

etcd: the API server of a host has no other etcd than that of its host. While it is replaced, an API server that is left alone takes requests which hang until
it gives them up after 34 s: those of clients, until their load balancer has noticed, and the one by which the kubelet deletes the mirror Pod of the old etcd,
before which it does not start the new one.

So the API server is asked to end just before. kubeadm writes the new manifest into a folder of its own, renews etcd's certificates, and then puts it in place:
the first is the sign. While it has etcd, an API server that is asked to end stops to listen within 0.1 s, and stays for 60 s because of those who watch. So
clients and the kubelet are refused at once, and there is no successor yet, which would be as bad: it listens, but answers nobody before it has etcd, and ends
after 20 s without. When the new etcd listens, the old API server is ended by force. The kubelet starts the successor at once, since it is the first.

Asked too late, it listens on for 20 s. The kubelet looks at the new etcd again 10 to 15 s after the change, so that an API server which still listens after
TIMEOUT is ended by force: that cuts the kubelet's request, and etcd is started.

API server: see containers.py.

Measured with kubeadm 1.34 and 1.35: 22 to 26 s instead of 74 for etcd, 20 instead of 45 for the API server. Source: kubelet 1.34, pkg/kubelet/kubelet.go,
SyncPod; apiserver 1.34, pkg/endpoints/handlers/rest.go, requestTimeoutUpperBound; pkg/controlplane/controller/kubernetesservice/controller.go, Stop; kubeadm
1.34, cmd/kubeadm/app/phases/upgrade/staticpods.go, performEtcdStaticPodUpgrade.

Only API servers are ended, and only containers of the Pod that ran before kubeadm did: the kubelet gives a static Pod another uid when its manifest changes, so
that no container of the new manifest can be meant. etcd is never touched. What containerd does not tell is no proof of anything.
"""

from __future__ import annotations

from quorate.etcd.dialers import CLIENT_PORT
from quorate.hosts.act import containers, kubeadm
from quorate.hosts.connect.access import API_SERVER_PORT
from quorate.workload.static_pods import Component

TIMEOUT = 16
"""Seconds from the end of the old etcd until the kubelet has tried to start the new one: it looks again after 10 to 15."""
_LOOKS_A_SECOND = 10  # kubeadm prepares etcd's manifest 0.3 to 1 s before it puts it in place


def ending_old_containers(host: str) -> str:
    """A part of a script that looks after that in the background until END_WATCHING, the end of the script, or that of the longest kubeadm.

    What fails in it has no say in what becomes of the script. No other kubeadm may run meanwhile.
    """
    return _WATCH.format(
        api_server=containers.listing(host, Component.API_SERVER),
        etcd_port=CLIENT_PORT,
        port=API_SERVER_PORT,
        refuses=containers.REFUSES,
        refusals=containers.LOOKS_A_SECOND * containers.QUIET_SECONDS,
        timeout=containers.LOOKS_A_SECOND * TIMEOUT,
        pause=1 / _LOOKS_A_SECOND,
        every=_LOOKS_A_SECOND // containers.LOOKS_A_SECOND,
        looks=_LOOKS_A_SECOND * int(kubeadm.DEADLINE),
    )


END_WATCHING = '[ -z "${watching:-}" ] || kill "$watching" 2>/dev/null || :'
"""What ends it; without single quotes, as it is part of a trap."""

# The lock of kubeadm goes with the last who has its descriptor, and the connection of SSH ends with the last who has its output: it has neither. `$$` is the
# script, also in here: where that was killed, so that its trap did not run, there is nothing left to look after. What does not listen at this
# address and port has not stopped to: at first both must.
_WATCH = """\
rm -rf -- /etc/kubernetes/tmp/kubeadm-upgraded-manifests*
(
    exec 9>&- </dev/null >/dev/null 2>&1
    set +e
    container_tool() {{ timeout 10 ctr -n k8s.io "$@"; }}
    api_server_now() {{
{api_server}
    }}
    pods_of() {{
        for id in "$@"; do container_tool containers info "$id" | sed -n 's/.*"io.kubernetes.pod.uid": "\\([^"]*\\)".*/\\1/p'; done | sort -u
    }}
    running() {{
        tasks=$(container_tool tasks ls) || return 1
        only='labels."io.kubernetes.container.name"==kube-apiserver'
        of_pod=$(container_tool containers ls -q "$only,labels.\\"io.kubernetes.pod.uid\\"==$api_server") || return 1
        for id in $of_pod; do
            printf '%s\\n' "$tasks" | awk -v id="$id" '$1 == id && $3 == "RUNNING" {{ print id }}'
        done
    }}
    signal() {{
        by=$1
        shift
        for id in "$@"; do container_tool tasks kill --signal "$by" "$id" || return; done
    }}
    is_another() {{ now=$(sha256sum <"$1") && [ "$now" != "$2" ]; }}
    prepared() {{
        for manifest in /etc/kubernetes/tmp/kubeadm-upgraded-manifests*/etcd.yaml; do
            if [ -s "$manifest" ] && is_another "$manifest" "$etcd_manifest"; then return 0; fi
        done
        return 1
    }}
{refuses}
    ask_to_end() {{
        draining=$ran_before
        signal SIGTERM $draining && return
        draining=$(running)
        signal SIGTERM $draining
    }}
    look_at_etcd() {{
        if refuses {etcd_port}; then
            away=$((away + 1))
            [ "$away" -ge {timeout} ] && ! refuses {port} || return
            signal SIGKILL $(running)
            etcd=left_to_itself
        elif [ "$away" -gt 0 ]; then
            signal SIGKILL $draining
            etcd=new
        fi
    }}
    look_at_api_server() {{
        if refuses {port}; then refused=$((refused + 1)); else refused=0; fi
        [ "$refused" -lt {refusals} ] || signal SIGKILL $(running)
    }}
    cd /etc/kubernetes/manifests || exit
    etcd_manifest=$(sha256sum <etcd.yaml) || exit
    api_server_manifest=$(sha256sum <kube-apiserver.yaml) || exit
    ran_before=$(api_server_now)
    api_server=$(pods_of $ran_before)
    case "$api_server" in *[!0-9a-f-]* | '') exit ;; esac
    ! refuses {etcd_port} && ! refuses {port} || exit
    etcd=old
    draining=
    away=0
    refused=0
    looks=0
    while [ "$looks" -lt {looks} ] && kill -0 $$; do
        looks=$((looks + 1))
        sleep {pause}
        if [ "$etcd" = old ] && [ -z "$draining" ] && prepared; then ask_to_end; fi
        [ $((looks % {every})) = 0 ] || continue
        if [ "$etcd" = old ] && is_another etcd.yaml "$etcd_manifest"; then look_at_etcd; fi
        if is_another kube-apiserver.yaml "$api_server_manifest"; then look_at_api_server; fi
    done
) &
watching=$!
"""
