"""A workload cluster as it really is, frozen: its hosts, what is on their disks, its Nodes and the members of its etcd.

Nothing here knows what quorate thinks. Whether etcd has its quorum is counted from the hosts that run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Host:
    """One machine that the infrastructure provider made, named like its Machine."""

    name: str
    todo: str = ""  # what kubeadm has yet to do on it: init, join, vote (its learner is to be started and promoted), register
    runs: bool = True
    member: int | None = None  # whose data its disk holds


@dataclass(frozen=True, slots=True)
class Member:
    """One line of etcd's member list."""

    id: int
    host: str  # to which its peer URL leads
    learner: bool = False
    started: bool = True


@dataclass(frozen=True)  # without slots: what follows from it is asked many times
class Plant:
    """The whole of it. `reachable` is the way from the management cluster to the API server's endpoint."""

    hosts: tuple[Host, ...] = ()
    nodes: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    leader: int = 0
    founded: bool = False  # whether kubeadm init made a cluster here
    reachable: bool = True
    recorded: bool = False  # that there is a cluster was on record at some time, whatever became of the record

    def host(self, name: str) -> Host | None:
        """The host of this name."""
        return next((host for host in self.hosts if host.name == name), None)

    def member(self, member_id: int | None) -> Member | None:
        """The member with this id."""
        return next((member for member in self.members if member.id == member_id), None)

    @cached_property
    def voters(self) -> frozenset[int]:
        """The members that count."""
        return frozenset(member.id for member in self.members if not member.learner)

    @cached_property
    def running(self) -> frozenset[int]:
        """The members whose process runs on their own data."""
        kept = {host.member for host in self.hosts if host.runs}
        return frozenset(member.id for member in self.members if member.id in kept and member.started)

    @cached_property
    def starting(self) -> bool:
        """Whether kubeadm is about to start a member that it has added."""
        return any(host.runs and host.todo == "vote" and self.member(host.member) for host in self.hosts)

    @cached_property
    def well(self) -> frozenset[int]:
        """Voters that run."""
        return self.voters & self.running

    @cached_property
    def has_quorum(self) -> bool:
        """Whether a majority of the voters runs."""
        return 2 * len(self.well) > len(self.voters)

    @cached_property
    def serves(self) -> bool:
        """Whether some API server answers inside the cluster: it runs beside a member that has a leader."""
        return self.has_quorum and any(host.runs and host.member in self.well and not host.todo for host in self.hosts)

    @cached_property
    def holders(self) -> frozenset[int]:
        """Voters whose data is on some disk, running or not."""
        kept = {host.member for host in self.hosts}
        return frozenset(member for member in self.voters if member in kept)

    def with_host(self, host: Host) -> Plant:
        """With this host in place of the one of its name, or beside the others."""
        hosts = {known.name: known for known in self.hosts} | {host.name: host}
        return replace(self, hosts=tuple(sorted(hosts.values(), key=lambda each: each.name))).settled()

    def without_host(self, name: str) -> Plant:
        """With its disk gone for good."""
        return replace(self, hosts=tuple(host for host in self.hosts if host.name != name)).settled()

    def with_node(self, name: str) -> Plant:
        """With a Node of this name."""
        return replace(self, nodes=tuple(sorted({*self.nodes, name})))

    def without_node(self, name: str) -> Plant:
        """Without it."""
        return replace(self, nodes=tuple(node for node in self.nodes if node != name))

    def with_member(self, member: Member) -> Plant:
        """With this line in the list, in place of the one of its id."""
        members = {known.id: known for known in self.members} | {member.id: member}
        return replace(self, members=tuple(members[each] for each in sorted(members))).settled()

    def without_member(self, member_id: int) -> Plant:
        """Without the line; the data stays on the disk."""
        return replace(self, members=tuple(member for member in self.members if member.id != member_id)).settled()

    def settled(self) -> Plant:
        """With a leader where there can be one: the same as before while it can lead, else the lowest id."""
        leader = self.leader if self.has_quorum and self.leader in self.well else min(self.well, default=0) if self.has_quorum else 0
        return replace(self, leader=leader)

    def unused_id(self, written: Collection[int]) -> int:
        """A member id that no line and no disk has, and that is not `written` down anywhere."""
        used = {member.id for member in self.members} | {host.member for host in self.hosts} | set(written)
        return next(number for number in range(1, len(used) + 2) if number not in used)
