"""What keeps one process for all control planes going, whatever a network, a server or a tenant does: in the client, the etcd client and the connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from tests.proof.guard import Function, Guard, returns


def changes_nothing(_function: Function) -> Function:
    """What it was given."""
    return lambda given, *_: given


def decodes_as_it_is(_reading: Function) -> Function:
    """The object as it is stored."""
    return lambda data, decoder, *_: decoder.decode(data)


def takes_any_cancellation(_context: Function) -> Function:
    """A cancellation is a cancellation, whoever asked for it."""
    return nullcontext


def follows(_middleware: Function) -> Function:
    """The request is sent wherever it leads."""

    async def send(_transport: object, request: Any, handler: Any) -> Any:
        return await handler(request)

    return send


def waits_for_nobody(_turn: Function) -> Function:
    """Everybody has a turn at once."""

    @asynccontextmanager
    async def turn(_turns: object) -> AsyncIterator[Callable[[], None]]:
        yield lambda: None

    return turn


def is_let_through(_attempt: Function) -> Function:
    """What an attempt to connect raises is raised."""

    async def attempt(workload: Any) -> Any:
        return await workload._attempt(lambda: None)

    return attempt


def by_the_event_loop(_resolve: Function) -> Function:
    """The event loop's few threads look names up."""

    async def resolve(_lookups: object, host: str, port: int = 0, *_: object) -> Any:
        return await asyncio.get_running_loop().getaddrinfo(host, port)

    return resolve


CONNECTION, LEADER = "tests/workload/test_connection.py", "tests/kubernetes/runtime/test_leader.py"

RUNTIME: tuple[Guard, ...] = (
    Guard(
        "an object of a thousand levels hides no other",
        {"kubernetes.depth:shallow": changes_nothing},
        "tests/kubernetes/test_depth.py::test_one_object_that_is_too_deep_hides_no_other",
    ),
    Guard(
        "an object with a moment that Python cannot hold hides no other",
        {"kubernetes.moments:readable": decodes_as_it_is},
        "tests/kubernetes/test_moments.py::test_one_object_with_a_moment_that_is_none_hides_no_other",
    ),
    Guard(
        "those that hang keep no other waiting",
        {"kubernetes.controller:Controller._has_room": returns(False)},
        "tests/kubernetes/runtime/test_controller.py::test_those_that_hang_keep_no_other_waiting_but_once_for_a_moment",
    ),
    Guard(
        "a worker ends by a cancellation of its own alone",
        {"kubernetes.tasks:cancelled_by_request_alone": takes_any_cancellation},
        "tests/kubernetes/runtime/test_controller.py::test_a_reconcile_whose_request_was_cancelled_by_others_failed_and_its_worker_goes_on",
    ),
    Guard(
        "no redirect is followed to another server",
        {"kubernetes.transport:Transport._stays": follows},
        "tests/kubernetes/test_transport.py::test_no_redirect_leads_to_another_server",
    ),
    Guard(
        "a Lease is taken over once it has run out",
        {"kubernetes.leader:LeaderElector._run_out": returns(True)},
        f"{LEADER}::test_after_a_crash_the_second_takes_over_when_the_lease_has_run_out_and_not_before",
    ),
    Guard(
        "what nobody foresaw of one workload cluster ends its own connection alone",
        {"workload.connection:Workload._contained_attempt": is_let_through},
        f"{CONNECTION}::test_what_nobody_foresaw_of_one_cluster_is_the_end_of_its_connection_alone",
    ),
    Guard(
        "names of workload clusters are looked up in threads of their own",
        {"kubernetes.lookups:Lookups.resolve": by_the_event_loop},
        "tests/kubernetes/test_lookups.py::test_only_so_many_are_looked_up_at_once",
    ),
    Guard(
        "nobody leads beyond the deadline of the renewal",
        {"kubernetes.leader:LeaderElector.leading": returns(True)},
        f"{LEADER}::test_a_leader_is_no_longer_leading_at_the_deadline_even_if_nothing_told_it",
    ),
    Guard(
        "no tenant's objects fill the memory of all",
        {"kubernetes.reflector:Reflector._refuse_more": returns(None)},
        f"{CONNECTION}::test_more_nodes_than_are_kept_end_the_connection_with_their_number",
    ),
    Guard(
        "no tenant's object fills the memory of all",
        {"workload.watches:_small": changes_nothing},
        f"{CONNECTION}::test_a_node_that_is_large_in_what_is_read_ends_the_connection_by_name",
    ),
    Guard(
        "a cluster that does not answer is lost",
        {"workload.connection:Workload._is_lost": returns(False)},
        f"{CONNECTION}::test_five_probes_that_fail_lose_the_connection",
    ),
    Guard(
        "what one watch told last does not pass for new",
        {"workload.watches:Watches.outdated": returns(None)},
        f"{CONNECTION}::test_a_watch_that_breaks_alone_and_stays_broken_loses_the_connection",
    ),
    Guard(
        "not all clusters are connected to at once",
        {"workload.turns:Turns.turn": waits_for_nobody},
        "tests/workload/test_many_connections.py::test_of_many_clusters_only_some_are_connected_at_once",
    ),
    Guard(
        "a member that lists another ring vouches for nobody",
        {"workload.membership:_disagreement": returns("")},
        "tests/workload/test_membership.py::test_members_that_differ_twice_disagree_and_the_odd_one_vouches_for_nobody",
    ),
    Guard(
        "no member tells of more than any ring has",
        {"etcd.grpc_client:GrpcClient._refuse_more": returns(None)},
        "tests/etcd/test_hostile_member.py::test_more_members_than_any_ring_has_are_refused",
    ),
    Guard(
        "no member sends frames without end",
        {"etcd.grpc_client:_Protocol._frames": returns(0)},
        "tests/etcd/test_hostile_member.py::test_frames_without_end_are_read_no_further",
    ),
    Guard(
        "no port-forward has frames without end",
        {"etcd.port_forward:PortForward._has_room": returns(True)},
        "tests/kubernetes/test_bounds.py::test_frames_without_end_end_a_port_forward_with_the_reason",
    ),
    Guard(
        "no server has the time of all with what it sends",
        {"kubernetes.share:Share.wait": returns(0.0)},
        "tests/kubernetes/test_share.py::test_events_without_end_are_read_as_far_as_there_is_time_for_them",
    ),
    Guard(
        "a damaged CA issues nothing",
        {"pki.issue:_verify": returns(None)},
        "tests/pki/test_issue.py::test_a_ca_whose_key_is_damaged_issues_nothing",
    ),
)
"""What must not fail in what all control planes share."""
