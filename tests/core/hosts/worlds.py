"""Every combination of what up to five hosts can be with every ring that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

from quorate.core.health import Absent, Unknown
from quorate.core.hosts.state import Cluster, Host, Kind, RunOptions
from quorate.core.ring import Ring

from .conftest import V135, Build

Make = Callable[[Build, int], Host]
UNASKED: dict[str, Any] = {"member": Unknown("not asked"), "node": Unknown("not asked")}

# What a host can be, and its member's letter in the ring; an empty one: it has none.
SEATS: dict[str, tuple[Make, str]] = {
    "well": (lambda b, n: b.host(n), "g"),
    "well, nobody could ask its member": (lambda b, n: b.host(n), "u"),
    "well but for an alarm": (lambda b, n: b.host(n), "a"),
    "broken, its member well": (lambda b, n: b.broken(n), "g"),
    "another kubelet, which is stopped": (lambda b, n: b.broken(n, stopped=("kubelet",), etcd_runs=True, kubelet=V135), "g"),
    "broken": (lambda b, n: b.broken(n), "b"),
    "broken, out of the ring": (lambda b, n: b.broken(n, member=Absent()), ""),
    "unreachable": (lambda b, n: b.unreachable(n), "b"),
    "unreachable, its member well": (lambda b, n: b.unreachable(n), "g"),
    "unreachable, never joined": (lambda b, n: b.unreachable(n, member=Absent(), node=Absent()), ""),
    "data lost, silent": (lambda b, n: b.broken(n, etcd_data_lost=True), "b"),
    "installed anew": (lambda b, n: b.wiped(n), "b"),
    "half joined, a learner": (lambda b, n: b.half_joined(n, member=n), "G"),
    "half joined, never started": (lambda b, n: b.half_joined(n, member=n), "-"),
    "half joined": (lambda b, n: b.half_joined(n), ""),
    "half initialized": (lambda b, n: b.half_initialized(n), ""),
    "unreachable, its member not known": (lambda b, n: b.unreachable(n, **UNASKED), ""),
    "prepared": (lambda b, n: b.prepared(n), ""),
}
ALIKE = (
    "well, nobody could ask its member",
    "broken, its member well",
    "another kubelet, which is stopped",
    "unreachable, its member well",
    "half joined, never started",
    "half joined",
)
"""Left out where there are five hosts: each is decided by what others in the table show too."""
BEGINNERS: dict[str, Make] = {
    "prepared": lambda b, n: b.prepared(n),
    "never asked": lambda b, n: b.unreachable(n, **UNASKED),
    "may be anything": lambda b, n: b.prepared(n, kind=Kind.UNKNOWN),
    "half initialized": lambda b, n: b.half_initialized(n, member=Unknown("not asked")),
    "half joined": lambda b, n: b.half_joined(n),
    "foreign": lambda b, n: b.prepared(n, kind=Kind.FOREIGN),
}

ORPHANS: tuple[tuple[str, int | None, float], ...] = (("g", None, 0), ("b", 3, 0), ("b", 2, 0), ("G", 3, 0), ("G", None, 60), ("-", 3, 180))
"""Each with how often it was silent, and for how many seconds it has been seen without a vote."""
WISHES: tuple[RunOptions, ...] = (RunOptions(), RunOptions(without=("cp-1",)), RunOptions(without=("cp-2", "cp-3")))
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"version": V135},
    {"options": RunOptions(renew_certificates=True), "snapshot_taken": False},
)


def standing(build: Build, hosts: int, orphans: int) -> Iterator[Cluster]:
    """Every multiset of that many hosts with every multiset of up to so many members of nobody, up to five members in the ring."""
    names = [name for name in SEATS if hosts < 5 or name not in ALIKE]
    for chosen in combinations_with_replacement(names, hosts):
        seats = [SEATS[name] for name in chosen]
        letters = [(number, letter) for number, (_, letter) in enumerate(seats, 1) if letter]
        made = tuple(make(build, number) for number, (make, _) in enumerate(seats, 1))
        for extra in range(orphans + 1):
            for others in combinations_with_replacement(ORPHANS, extra):
                if len(letters) + extra <= 5:
                    yield _cluster(build, made, letters, others)


def beginning(build: Build, hosts: int) -> Iterator[Cluster]:
    """Every multiset of that many hosts without a cluster, or with the beginning of one, in each order, and with what the operator may say of them."""
    for chosen in combinations_with_replacement(BEGINNERS.values(), hosts):
        for turned in (chosen, chosen[::-1]):
            made = tuple(make(build, number) for number, make in enumerate(turned, 1))
            for options in WISHES:
                yield build.new(*made, options=options)
                yield build.new(*made, options=options, ring=Unknown("connection refused"))


def everything(build: Build, hosts: int) -> Iterator[Cluster]:
    """All of these worlds of that many hosts: with members of nobody where there are few, and not in every variant where there are many."""
    yield from beginning(build, hosts)
    for cluster in standing(build, hosts, orphans={1: 2, 2: 2, 3: 1}.get(hosts, 0)):
        yield from (replace(cluster, **variant) for variant in (VARIANTS if hosts <= 3 else VARIANTS[:2]))


def _cluster(
    build: Build, hosts: tuple[Host, ...], letters: list[tuple[int, str]], orphans: tuple[tuple[str, int | None, float], ...]
) -> Cluster:
    members = tuple(build.member(number, letter) for number, letter in letters)
    others = tuple(
        build.orphan(10 + number, letter, probes=probes, without_vote_for=seen) for number, (letter, probes, seen) in enumerate(orphans)
    )
    everybody = (*members, *(orphan.member for orphan in others))
    ring = Ring(everybody, everybody[0].id) if everybody else Absent()
    missed = tuple((number, build.silent(3)) for number, letter in letters if letter == "b")
    return build.cluster(*hosts, ring=ring, orphans=others, members_missed_probes=missed)
