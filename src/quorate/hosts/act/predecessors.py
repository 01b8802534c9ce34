"""The containers that `kubeadm upgrade` replaces on a host, ended as soon as nobody can use them: most of the time of an upgrade is spent waiting for them.

etcd: before the kubelet starts the new one it deletes the mirror Pod of the old one, through the API server of its own host. That API server has no etcd but
the one that is about to be started, so the request hangs until the API server gives it up after 34 s, and by then the API server asks for etcd so rarely that
the next attempt takes 25 s more. Ended together with the old etcd it refuses the kubelet at once, and finds the new etcd when it is started again. Requests
hang on it only as long as the old etcd takes to end: up to 8 s, since that waits for the watches of its API server.

API server: see containers.py.

Measured with kubeadm 1.34 and 1.35: 29 s instead of 74 for etcd, 20 instead of 45 for the API server. Source: kubelet 1.34, pkg/kubelet/kubelet.go, SyncPod;
apiserver 1.34, pkg/endpoints/handlers/rest.go, requestTimeoutUpperBound.

Only API servers are ended, and only containers of the Pod that ran before kubeadm did: the kubelet gives a static Pod another uid when its manifest changes, so
that no container of the new manifest can be meant. etcd is never touched. What containerd does not tell is no proof of anything.
"""

from __future__ import annotations

from quorate.hosts.access import API_SERVER_PORT
from quorate.hosts.act import containers, kubeadm
from quorate.workload.static_pods import Component


def ending_predecessors(host: str) -> str:
    """A part of a script that looks after that in the background until END_WATCHING, the end of the script, or that of the longest kubeadm.

    What fails in it has no say in what becomes of the script.
    """
    return _WATCH.format(
        etcd=containers.listing(host, Component.ETCD),
        api_server=containers.listing(host, Component.API_SERVER),
        port=API_SERVER_PORT,
        refuses=containers.REFUSES,
        refusals=containers.LOOKS_A_SECOND * containers.SILENCE,
        looks=containers.LOOKS_A_SECOND * int(kubeadm.DEADLINE),
    )


END_WATCHING = '[ -z "${watching:-}" ] || kill "$watching" 2>/dev/null || :'
"""What ends it; without single quotes, as it is part of a trap."""

# The lock of kubeadm goes with the last who has its descriptor, and the connection of SSH ends with the last who has its output: it has neither. `$$` is the
# script, also in here: where that was killed, so that its trap did not run, there is nothing left to look after. An API server that does not listen at this
# address and port has not stopped to: at first it must.
_WATCH = """\
(
    exec 9>&- </dev/null >/dev/null 2>&1
    set +e
    container_tool() {{ timeout 10 ctr -n k8s.io "$@"; }}
    etcd_now() {{
{etcd}
    }}
    api_server_now() {{
{api_server}
    }}
    pods_of() {{
        for id in "$@"; do container_tool containers info "$id" | sed -n 's/.*"io.kubernetes.pod.uid": "\\([^"]*\\)".*/\\1/p'; done | sort -u
    }}
    running() {{
        tasks=$(container_tool tasks ls) || return 1
        of_pod=$(container_tool containers ls -q "labels.\\"io.kubernetes.container.name\\"==$1,labels.\\"io.kubernetes.pod.uid\\"==$2") || return 1
        for id in $of_pod; do
            printf '%s\\n' "$tasks" | awk -v id="$id" '$1 == id && $3 == "RUNNING" {{ print id }}'
        done
    }}
    end_api_server() {{
        for id in $(running kube-apiserver "$api_server"); do container_tool tasks kill --signal SIGKILL "$id"; done
    }}
    is_another() {{ now=$(sha256sum <"$1") && [ "$now" != "$2" ]; }}
{refuses}
    cd /etc/kubernetes/manifests || exit
    etcd_manifest=$(sha256sum <etcd.yaml) || exit
    api_server_manifest=$(sha256sum <kube-apiserver.yaml) || exit
    etcd=$(pods_of $(etcd_now))
    api_server=$(pods_of $(api_server_now))
    case "$etcd $api_server" in *[!0-9a-f\\ -]* | ' '* | *' ') exit ;; esac
    ! refuses {port} || exit
    etcd_runs=yes
    refused=0
    looks=0
    while [ "$looks" -lt {looks} ] && kill -0 $$; do
        looks=$((looks + 1))
        sleep 0.5
        if [ "$etcd_runs" ] && is_another etcd.yaml "$etcd_manifest" && left=$(running etcd "$etcd") && [ -z "$left" ]; then
            end_api_server
            etcd_runs=
        fi
        if is_another kube-apiserver.yaml "$api_server_manifest"; then
            if refuses {port}; then refused=$((refused + 1)); else refused=0; fi
            [ "$refused" -lt {refusals} ] || end_api_server
        fi
    done
) &
watching=$!
"""
