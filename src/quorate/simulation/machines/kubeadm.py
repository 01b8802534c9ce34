"""kubeadm on one host: init and join as far as the rest of the world sees them, each a chain of moments that a dead host leaves off."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from quorate.simulation.engine.apiserver import Failure
from quorate.simulation.engine.objects import CONFIG_MAPS, DAEMON_SETS
from quorate.simulation.engine.ring import NoQuorum
from quorate.simulation.engine.world import World
from quorate.simulation.machines.hosts import Host, State
from quorate.simulation.machines.kubelet import Kubelets
from quorate.simulation.machines.workload_cluster import WorkloadCluster
from quorate.workload.static_pods import NAMESPACE, Component

_AGAIN = 2.0  # seconds between two tries of what a majority must confirm
_TIMEOUT = 300.0  # seconds that kubeadm goes on trying before it gives up

_REST = (Component.API_SERVER, Component.CONTROLLER_MANAGER, Component.SCHEDULER)


class Kubeadm:
    """One run of kubeadm on a host of a cluster."""

    def __init__(self, world: World, cluster: WorkloadCluster, kubelets: Kubelets, host: Host, random: Random) -> None:
        self._world, self._cluster, self._kubelets, self._host, self._random = world, cluster, kubelets, host, random
        self._started = world.time()
        self.failed = ""

    def init(self) -> None:
        """Found the cluster."""
        self._later((2.0, 5.0), self._found)

    def join(self) -> None:
        """Join it as one more control plane."""
        self._later((1.0, 3.0), self._discover)

    # init.

    def _found(self) -> None:
        cluster, host = self._cluster, self._host
        self._world.trace.add(host.name, "kubeadm init")
        if cluster.founded_by:
            cluster.refound()
        cluster.founded_by.append(host.name)
        if cluster.external is None:
            host.member = cluster.ring.found(host.name, host.peer_url).id
            host.components[Component.ETCD] = State.RUNNING
        self._kubelets.poke(host)
        self._later((1.0, 3.0), self._start_the_rest, self._upload_configuration)

    def _upload_configuration(self) -> None:
        if not self._again_unless(self._cluster.writable, self._upload_configuration, "the API server did not come up"):
            return
        configuration = f"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {self._host.version}\n"
        config_map = {"metadata": {"name": "kubeadm-config", "namespace": NAMESPACE}, "data": {"ClusterConfiguration": configuration}}
        self._cluster.put(CONFIG_MAPS, config_map, "kubeadm")
        containers = [{"name": "kube-proxy", "image": f"registry.k8s.io/kube-proxy:{self._host.version}"}]
        proxy = {"metadata": {"name": "kube-proxy", "namespace": NAMESPACE}, "spec": {"template": {"spec": {"containers": containers}}}}
        self._cluster.put(DAEMON_SETS, proxy, "kubeadm")
        self._mark()

    # join.

    def _discover(self) -> None:
        cluster = self._cluster
        if self._again_unless(cluster.writable and cluster.initialized, self._discover, "the cluster could not be reached"):
            if cluster.external is None:
                self._later((0.5, 2.0), self._add_member)
            else:
                self._later((0.5, 2.0), self._start_the_rest, self._mark)

    def _add_member(self) -> None:
        ring, host = self._cluster.ring, self._host
        known = next((member for member in ring.members.values() if member.peer_url == host.peer_url), None)
        if known is not None:  # kubeadm takes it for its own; without that member's data its etcd never starts
            host.components[Component.ETCD] = State.FAILING
            self.fail(f"member {known.id:x} with {host.peer_url} exists already")
            return
        try:
            if host.isolated:
                raise NoQuorum("no way to the other members")
            host.member = ring.add_learner(host.peer_url).id
        except NoQuorum as error:
            self._again_unless(False, self._add_member, f"the member could not be added: {error}")
            return
        self._world.trace.add(host.name, f"added member {host.member:x} as a learner")
        self._later((0.5, 3.0), self._start_etcd)

    def _start_etcd(self) -> None:
        member, host = self._host.member, self._host
        if member is None or member not in self._cluster.ring.members:
            host.components[Component.ETCD] = State.FAILING
            self.fail("its member was removed before it started")
            return
        host.components[Component.ETCD] = State.RUNNING
        self._cluster.ring.start(member, host.name)
        self._kubelets.poke(host)
        self._later((0.5, 2.0), self._promote)

    def _promote(self) -> None:
        member = self._host.member
        if member is None or member not in self._cluster.ring.members:
            self._host.components[Component.ETCD] = State.FAILING
            self.fail("its member was removed before it voted")
            return
        try:
            self._cluster.ring.promote(member)
        except NoQuorum as error:
            self._again_unless(False, self._promote, f"the member could not be promoted: {error}")
            return
        self._world.trace.add(self._host.name, f"member {member:x} votes")
        self._later((0.5, 2.0), self._start_the_rest, self._mark)

    # Both.

    def _start_the_rest(self, then: Callable[[], None]) -> None:
        self._host.components |= dict.fromkeys(_REST, State.STARTING)
        self._host.certificate_expires = (self._world.now() + self._host.certificates_last).replace(microsecond=0)
        self._later((1.0, 4.0), self._run_the_rest, then)

    def _run_the_rest(self, then: Callable[[], None]) -> None:
        self._host.components |= dict.fromkeys(_REST, State.RUNNING)
        self._host.registered = True
        self._kubelets.poke(self._host)
        self._later((0.5, 2.0), then)

    def _mark(self) -> None:
        """Label and taint the Node as a control plane."""
        if self._again_unless(self._cluster.writable, self._mark, "the Node could not be marked"):
            self._host.joined = True
            self._world.trace.add(self._host.name, "kubeadm is through")
            self._kubelets.poke(self._host)

    def _later(self, span: tuple[float, float], step: Callable[..., None], *args: object) -> None:
        self._world.after(self._random.uniform(*span), self._run, step, *args)

    def _run(self, step: Callable[..., None], *args: object) -> None:
        if self._cluster.hosts.get(self._host.name) is not self._host or self.failed:
            return
        if not self._host.alive and self._host.registered:  # whoever finds a Node that runs and has no marks sets them by hand
            self._later((_AGAIN, _AGAIN + 1.0), step, *args)
            return
        if not self._host.alive:  # the program died with the host, and does not come back with it
            self.fail("the host went down")
            return
        try:
            step(*args)
        except Failure as error:
            self.fail(str(error))

    def _again_unless(self, done: bool, step: Callable[[], None], problem: str) -> bool:
        """Whether it is done; otherwise the step is tried again until its time is over."""
        if not done:
            if self._world.time() - self._started > _TIMEOUT:
                self.fail(problem)
            else:
                self._later((_AGAIN, _AGAIN + 1.0), step)
        return done

    def fail(self, problem: str) -> None:
        """End here, for this reason."""
        self.failed = problem
        self._world.trace.add(self._host.name, f"kubeadm failed: {problem}")
        self._kubelets.poke(self._host)
