"""The watch of what `kubeadm upgrade` replaces: whom it ends and whom never, with a containerd of stand-ins, in which things happen one after the other.

At first container server-1 of Pod a1 runs beside an etcd; another Pod takes its place.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quorate.hosts.act import containers, kubeadm, old_containers
from quorate.workload.static_pods import Component
from tests.hosts.scripts import FakeHost

MANIFESTS = "/etc/kubernetes/manifests"
PREPARED = "/etc/kubernetes/tmp/kubeadm-upgraded-manifests1"
CONTAINERS = """\
[ ! -e {root}/containerd-is-away ] || exit 1
case "$*" in
    *"tasks kill"*) grep -qx "$7" {root}/running && echo "$6 $7" >>{root}/signals ;;
    *"tasks ls"*) while read -r id; do printf '%s 11 RUNNING\n' "$id"; done <{root}/running ;;
    *"containers info"*) awk -v id="$5" '$1 == id {{ print "    \\"io.kubernetes.pod.uid\\": \\"" $2 "\\"," }}' {root}/pods ;;
    *"containers ls"*pod.uid*) awk -v pod="${{6##*==}}" '$2 == pod {{ print $1 }}' {root}/pods ;;
    *"containers ls"*apiserver*) awk '/^server/ {{ print $1 }}' {root}/pods ;;
esac"""
# The next thing happens once in half a second; when nothing has for 12 times, the watch is ended.
WAITING = """\
cd {root}
echo >>waits
[ $(($(wc -l <waits) % 5)) = 1 ] || exit 0
next=$(ls turns 2>/dev/null | sort -n | head -n 1)
if [ -n "$next" ]; then
    . ./turns/"$next"
    rm turns/"$next"
else
    echo >>calm
    [ "$(wc -l <calm)" -lt 12 ] || kill "$PPID"
fi"""
KUBEADM_PREPARES = f"mkdir -p .{PREPARED}; echo new >.{PREPARED}/etcd.yaml"
ETCD_CHANGES = f"echo new >.{MANIFESTS}/etcd.yaml; rm -rf .{PREPARED}"
ETCD_GOES = "touch 2379-refuses"
ETCD_IS_BACK = "rm 2379-refuses"
API_SERVER_CHANGES = f"echo new >.{MANIFESTS}/kube-apiserver.yaml"
STOPS_TO_LISTEN = "touch 6443-refuses"
RESTARTED = "sed -i s/server-1/server-2/ running; echo server-2 a1 >>pods"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    made = FakeHost(tmp_path / "root", tmp_path / "programs")
    made.root.mkdir()
    return made


def upgrading(host: FakeHost, *turns: str) -> FakeHost:
    """Both run, and these things happen one after the other."""
    for component in (Component.ETCD, Component.API_SERVER):
        host.file(f"{MANIFESTS}/{component}.yaml", "old\n")
    host.file("running", "server-1\n")
    host.file("pods", "server-1 a1\n")
    host.program("ctr", CONTAINERS.format(root=host.root))
    host.program("curl", f'case "$*" in *:2379/*) port=2379 ;; *) port=6443 ;; esac; [ ! -e {host.root}/$port-refuses ] || exit 7')
    host.program("sleep", WAITING.format(root=host.root))
    for number, turn in enumerate(turns):
        host.file(f"turns/{number}", turn)
    return host


def signals(host: FakeHost) -> list[str]:
    """The signals that containers which run got, in order."""
    host.file("signals")
    done = host.run(f"{old_containers.ending_old_containers('h2')}\nwait")
    assert done.returncode == 0, done.stderr
    return (host.root / "signals").read_text().splitlines()


def quiet(seconds: float) -> list[str]:
    return [""] * int(containers.LOOKS_A_SECOND * seconds)


def test_an_api_server_is_asked_to_end_before_its_etcd_goes_and_ended_when_etcd_is_back(host: FakeHost) -> None:
    turns = KUBEADM_PREPARES, STOPS_TO_LISTEN, ETCD_CHANGES, ETCD_GOES, *quiet(5), ETCD_IS_BACK
    assert signals(upgrading(host, *turns)) == ["SIGTERM server-1", "SIGKILL server-1"]


def test_while_etcd_is_away_one_that_listens_no_more_stays_so_that_it_has_no_successor(host: FakeHost) -> None:
    turns = KUBEADM_PREPARES, STOPS_TO_LISTEN, ETCD_CHANGES, ETCD_GOES, *quiet(2 * old_containers.TIMEOUT)
    assert signals(upgrading(host, *turns)) == ["SIGTERM server-1"]


@pytest.mark.parametrize("asked", [True, False])
def test_one_that_still_listens_when_the_kubelet_has_asked_it_is_ended(host: FakeHost, asked: bool) -> None:
    turns = *((KUBEADM_PREPARES,) if asked else ()), ETCD_CHANGES, ETCD_GOES, *quiet(old_containers.TIMEOUT)
    assert signals(upgrading(host, *turns)) == [*(["SIGTERM server-1"] if asked else []), "SIGKILL server-1"]


def test_before_that_it_stays(host: FakeHost) -> None:
    assert signals(upgrading(host, ETCD_CHANGES, ETCD_GOES, *quiet(old_containers.TIMEOUT - 8))) == []


def test_one_that_was_not_asked_finds_an_etcd_that_is_back_soon_by_itself(host: FakeHost) -> None:
    assert signals(upgrading(host, ETCD_CHANGES, ETCD_GOES, *quiet(5), ETCD_IS_BACK, *quiet(old_containers.TIMEOUT))) == []


def test_one_that_was_restarted_before_is_the_old_one_still(host: FakeHost) -> None:
    assert signals(upgrading(host, RESTARTED, KUBEADM_PREPARES)) == ["SIGTERM server-2"]


def test_the_successor_of_one_that_ended_by_itself_stays(host: FakeHost) -> None:
    assert signals(upgrading(host, KUBEADM_PREPARES, ETCD_CHANGES, ETCD_GOES, RESTARTED, ETCD_IS_BACK)) == ["SIGTERM server-1"]


def test_an_etcd_that_stays_as_it_is_costs_no_api_server(host: FakeHost) -> None:
    the_same = f"mkdir -p .{PREPARED}; echo old >.{PREPARED}/etcd.yaml"
    assert signals(upgrading(host, the_same)) == []


def test_what_an_earlier_kubeadm_prepared_says_nothing(host: FakeHost) -> None:
    host.file(f"{PREPARED}/etcd.yaml", "new\n")
    assert signals(upgrading(host)) == []


def test_an_etcd_that_ends_by_itself_takes_no_api_server_along(host: FakeHost) -> None:
    assert signals(upgrading(host, ETCD_GOES, *quiet(old_containers.TIMEOUT))) == []


def test_a_containerd_that_does_not_answer_at_first_is_asked_again(host: FakeHost) -> None:
    turns = "touch containerd-is-away", KUBEADM_PREPARES, "rm containerd-is-away"
    assert signals(upgrading(host, *turns)) == ["SIGTERM server-1"]


def test_a_containerd_that_does_not_tell_what_ran_before_names_nothing_to_end(host: FakeHost) -> None:
    upgrading(host, "rm containerd-is-away", KUBEADM_PREPARES, ETCD_CHANGES, ETCD_GOES, ETCD_IS_BACK)
    host.file("containerd-is-away")
    assert signals(host) == []


def test_an_api_server_that_listens_no_more_is_ended(host: FakeHost) -> None:
    assert set(signals(upgrading(host, API_SERVER_CHANGES, STOPS_TO_LISTEN))) == {"SIGKILL server-1"}


def test_its_successor_is_never_ended_however_early_it_is_there_and_however_late_it_listens(host: FakeHost) -> None:
    succeeded = "echo server-2 >running; echo server-2 a2 >>pods; touch 6443-refuses"
    assert signals(upgrading(host, f"{API_SERVER_CHANGES}; {succeeded}")) == []
    assert any("livez" in call for call in host.calls), "it was looked at"


def test_an_api_server_that_still_listens_is_left_to_the_kubelet(host: FakeHost) -> None:
    assert signals(upgrading(host, API_SERVER_CHANGES)) == []


def test_one_that_listens_again_before_its_requests_are_over_is_left_to_the_kubelet(host: FakeHost) -> None:
    for_a_moment = [STOPS_TO_LISTEN, *quiet(containers.QUIET_SECONDS)[2:], "rm 6443-refuses"]
    assert signals(upgrading(host, API_SERVER_CHANGES, *for_a_moment, *for_a_moment)) == []


@pytest.mark.parametrize("port", [2379, 6443])
def test_where_one_never_listened_silence_says_nothing(host: FakeHost, port: int) -> None:
    host.file(f"{port}-refuses")
    assert signals(upgrading(host, KUBEADM_PREPARES, ETCD_CHANGES, ETCD_GOES, API_SERVER_CHANGES, STOPS_TO_LISTEN)) == []


@pytest.mark.parametrize("pods", ["", "server-1 a1\nserver-0 a0\n"])
def test_without_the_one_pod_that_was_there_before_nothing_can_be_ended(host: FakeHost, pods: str) -> None:
    upgrading(host, KUBEADM_PREPARES, ETCD_CHANGES, ETCD_GOES, API_SERVER_CHANGES, STOPS_TO_LISTEN)
    host.file("running", "server-1\nserver-0\n")
    host.file("pods", pods)
    assert signals(host) == []


def test_while_nothing_is_replaced_nothing_is_ended(host: FakeHost) -> None:
    assert signals(upgrading(host, STOPS_TO_LISTEN)) == []


@pytest.mark.parametrize(("way", "status"), [("exit 0", 0), ('kill -TERM "$$"', 1), ('kill -KILL "$$"', -9)])
def test_however_the_script_ends_nothing_of_it_is_left_behind(host: FakeHost, way: str, status: int) -> None:
    upgrading(host)
    host.program("sleep")
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as left:
        traps = f"trap '{old_containers.END_WATCHING}' EXIT\ntrap 'exit 1' HUP INT TERM"
        try:
            done = host.run(f"{traps}\n{old_containers.ending_old_containers('h2')}\n{way}", pass_fds=(writing,))
        finally:
            os.close(writing)
        assert done.returncode == status, done.stderr
        assert left.read() == b"", "it is read to its end when the last process that has it is gone"
    assert sum(call.startswith("sleep") for call in host.calls) < 10 * kubeadm.DEADLINE, "it was ended before its time was over"
