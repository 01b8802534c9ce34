"""The watch of what `kubeadm upgrade` replaces: whom it ends and whom never, with a containerd of stand-ins, in which things happen one after the other.

At first container etcd-1 of Pod e1 and container server-1 of Pod a1 run; other Pods take their place.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quorate.hosts.act import containers, kubeadm, predecessors
from quorate.workload.static_pods import Component
from tests.hosts.scripts import FakeHost

MANIFESTS = "/etc/kubernetes/manifests"
CONTAINERS = """\
[ ! -e {root}/containerd-is-away ] || exit 1
case "$*" in
    *"tasks ls"*) while read -r id; do printf '%s 11 RUNNING\n' "$id"; done <{root}/running ;;
    *"containers info"*) awk -v id="$5" '$1 == id {{ print "    \\"io.kubernetes.pod.uid\\": \\"" $2 "\\"," }}' {root}/pods ;;
    *"containers ls"*pod.uid*) awk -v pod="${{6##*==}}" '$2 == pod {{ print $1 }}' {root}/pods ;;
    *"containers ls"*etcd*) awk '/^etcd/ {{ print $1 }}' {root}/pods ;;
    *"containers ls"*apiserver*) awk '/^server/ {{ print $1 }}' {root}/pods ;;
esac"""
# Each time that the watch waits the next thing happens; when nothing has for 30 times, it is ended.
WAITING = """\
cd {root}
next=$(ls turns 2>/dev/null | sort -n | head -n 1)
if [ -n "$next" ]; then
    . ./turns/"$next"
    rm turns/"$next"
else
    echo >>calm
    [ "$(wc -l <calm)" -lt 30 ] || kill "$PPID"
fi"""
ETCD_CHANGES = f"echo new >.{MANIFESTS}/etcd.yaml"
API_SERVER_CHANGES = f"echo new >.{MANIFESTS}/kube-apiserver.yaml"
ETCD_ENDS = "sed -i /etcd-1/d running"
STOPS_TO_LISTEN = "touch refuses"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    made = FakeHost(tmp_path / "root", tmp_path / "programs")
    made.root.mkdir()
    return made


def upgrading(host: FakeHost, *turns: str) -> FakeHost:
    """Both run, and these things happen to them one after the other."""
    for component in (Component.ETCD, Component.API_SERVER):
        host.file(f"{MANIFESTS}/{component}.yaml", "old")
    host.file("running", "etcd-1\nserver-1\n")
    host.file("pods", "etcd-1 e1\nserver-1 a1\n")
    host.program("ctr", CONTAINERS.format(root=host.root))
    host.program("curl", f"[ ! -e {host.root}/refuses ] || exit 7")
    host.program("sleep", WAITING.format(root=host.root))
    for number, turn in enumerate(turns):
        host.file(f"turns/{number}", turn)
    return host


def ended(host: FakeHost) -> set[str]:
    """The containers that are ended by force."""
    done = host.run(f"{predecessors.ending_predecessors('h2')}\nwait")
    assert done.returncode == 0, done.stderr
    return {call.split()[-1] for call in host.calls if "kill --signal SIGKILL" in call}


def test_an_api_server_without_its_etcd_is_ended_once_the_old_etcd_has_ended(host: FakeHost) -> None:
    assert ended(upgrading(host, ETCD_CHANGES, "", ETCD_ENDS)) == {"server-1"}


def test_one_that_was_restarted_meanwhile_is_the_old_one_still(host: FakeHost) -> None:
    restarted = "sed -i s/server-1/server-2/ running; echo server-2 a1 >>pods"
    assert ended(upgrading(host, restarted, ETCD_CHANGES, ETCD_ENDS)) == {"server-2"}


def test_while_the_old_etcd_runs_its_api_server_stays(host: FakeHost) -> None:
    assert ended(upgrading(host, ETCD_CHANGES)) == set()


def test_an_etcd_that_ends_by_itself_takes_no_api_server_along(host: FakeHost) -> None:
    assert ended(upgrading(host, ETCD_ENDS)) == set()


def test_a_containerd_that_does_not_tell_what_runs_proves_no_end(host: FakeHost) -> None:
    assert ended(upgrading(host, ETCD_CHANGES, "touch containerd-is-away", *[""] * 5, "rm containerd-is-away")) == set()


def test_an_api_server_that_listens_no_more_is_ended(host: FakeHost) -> None:
    assert ended(upgrading(host, API_SERVER_CHANGES, STOPS_TO_LISTEN)) == {"server-1"}


def test_its_successor_is_never_ended_however_early_it_is_there_and_however_late_it_listens(host: FakeHost) -> None:
    succeeded = "echo server-2 >running; echo server-2 a2 >>pods; touch refuses"
    assert ended(upgrading(host, f"{API_SERVER_CHANGES}; {succeeded}")) == set()
    assert any("livez" in call for call in host.calls), "it was looked at"


def test_an_api_server_that_still_listens_is_left_to_the_kubelet(host: FakeHost) -> None:
    assert ended(upgrading(host, API_SERVER_CHANGES)) == set()


def test_one_that_listens_again_before_its_requests_are_over_is_left_to_the_kubelet(host: FakeHost) -> None:
    for_a_moment = [STOPS_TO_LISTEN, *[""] * (2 * containers.SILENCE - 2), "rm refuses"]
    assert ended(upgrading(host, API_SERVER_CHANGES, *for_a_moment, *for_a_moment)) == set()


def test_where_it_never_listened_silence_says_nothing(host: FakeHost) -> None:
    host.file("refuses")
    assert ended(upgrading(host, API_SERVER_CHANGES)) == set()


def test_without_a_pod_that_was_there_before_nothing_can_be_ended(host: FakeHost) -> None:
    upgrading(host, ETCD_CHANGES, ETCD_ENDS, API_SERVER_CHANGES, STOPS_TO_LISTEN)
    host.file("pods", "etcd-1 e1\n")
    assert ended(host) == set()


def test_where_two_pods_of_etcd_ran_before_it_is_not_known_whose_end_counts(host: FakeHost) -> None:
    upgrading(host, ETCD_CHANGES, ETCD_ENDS)
    host.file("running", "etcd-1\netcd-2\nserver-1\n")
    host.file("pods", "etcd-1 e1\netcd-2 e2\nserver-1 a1\n")
    assert ended(host) == set()


def test_while_nothing_is_replaced_nothing_is_ended(host: FakeHost) -> None:
    assert ended(upgrading(host, STOPS_TO_LISTEN)) == set()


@pytest.mark.parametrize(("way", "status"), [("exit 0", 0), ('kill -TERM "$$"', 1), ('kill -KILL "$$"', -9)])
def test_however_the_script_ends_nothing_of_it_is_left_behind(host: FakeHost, way: str, status: int) -> None:
    upgrading(host)
    host.program("sleep")
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as left:
        traps = f"trap '{predecessors.END_WATCHING}' EXIT\ntrap 'exit 1' HUP INT TERM"
        try:
            done = host.run(f"{traps}\n{predecessors.ending_predecessors('h2')}\n{way}", pass_fds=(writing,))
        finally:
            os.close(writing)
        assert done.returncode == status, done.stderr
        assert left.read() == b"", "it is read to its end when the last process that has it is gone"
    assert sum(call.startswith("sleep") for call in host.calls) < 2 * kubeadm.DEADLINE, "it was ended before its time was over"
