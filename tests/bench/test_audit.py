"""Requests are told apart by program, counted once, and a reaction is measured from the input that came last."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.bench import audit
from tests.bench.audit import Agent, Request

MakeRequest = Callable[..., Request]


def test_each_request_is_read_once_in_order_of_arrival_and_a_line_half_written_is_left_out(
    tmp_path: Path, line: Callable[..., bytes]
) -> None:
    log = tmp_path / "audit.json"
    watch = [line(1, "quorate", "watch", "machines", audit_id="w") for _ in range(2)]  # one for its beginning, one for its end
    log.write_bytes(
        watch[0]
        + line(3, "core", "patch", "machines")
        + line(2, "core", "get", "machines")
        + watch[1]
        + line(4, "core", "get", "nodes")[:-9]
    )
    assert [(request.verb, request.object_ref.resource) for request in audit.read(log)] == [
        ("watch", "machines"),
        ("get", "machines"),
        ("patch", "machines"),
    ]


@pytest.mark.parametrize(
    ("who", "agent"), [("quorate", Agent.QUORATE), ("upstream", Agent.UPSTREAM), ("core", Agent.CORE), ("bootstrap", Agent.BOOTSTRAP)]
)
def test_a_program_is_known_by_its_user_agent_and_by_no_other(request_at: MakeRequest, who: str, agent: Agent) -> None:
    request = request_at(0, who, "get", "machines")
    assert [each for each in Agent if each.sent(request)] == [agent]


def test_the_bench_and_capd_are_taken_for_neither_provider(request_at: MakeRequest) -> None:
    assert not any(agent.sent(request_at(0, who, "patch", "machines")) for who in ("bench", "capd") for agent in Agent)


def test_requests_are_counted_by_verb_with_refused_ones_and_without_leases(request_at: MakeRequest) -> None:
    requests = [
        request_at(0, "quorate", "patch", "machines/status", code=409),
        request_at(1, "quorate", "patch", "machines"),
        request_at(2, "quorate", "create", "secrets", code=201),
        request_at(3, "quorate", "watch", "machines"),
        request_at(4, "quorate", "update", "leases"),
        request_at(5, "core", "patch", "machines"),
    ]
    counts = audit.count(requests, Agent.QUORATE)
    assert counts == {"create": 1, "patch": 2, "watch": 1}
    assert audit.writes(counts) == 3
    assert audit.lease_writes(requests, Agent.QUORATE) == 1


def test_a_window_holds_its_beginning_and_not_its_end(request_at: MakeRequest, at: Callable[[float], datetime]) -> None:
    requests = [request_at(seconds, "core", "get", "machines", str(seconds)) for seconds in (0, 1, 2, 3)]
    assert [request.object_ref.name for request in audit.between(requests, at(1), at(3))] == ["1", "2"]


def test_a_reaction_runs_from_the_answer_to_the_last_input_to_the_arrival_of_the_write(request_at: MakeRequest) -> None:
    requests = [
        request_at(0, "core", "patch", "clusters"),
        request_at(5, "bootstrap", "patch", "kubeadmconfigs"),
        request_at(5.11, "upstream", "create", "machines", code=201),
        request_at(5.31, "upstream", "patch", "kubeadmcontrolplanes/status"),
    ]
    assert audit.reactions(requests, Agent.UPSTREAM) == pytest.approx([0.1, 0.3])


def test_what_is_refused_read_elsewhere_or_by_the_provider_itself_is_no_input(request_at: MakeRequest) -> None:
    requests = [
        request_at(0, "core", "patch", "machines"),
        request_at(1, "core", "patch", "machines", code=409),
        request_at(2, "core", "get", "machines"),
        request_at(3, "core", "patch", "machines", namespace="other"),
        request_at(4, "core", "create", "secrets", code=201),
        request_at(5, "quorate", "patch", "machines/status"),
        request_at(6.01, "quorate", "patch", "kubeadmcontrolplanes/status"),
    ]
    assert audit.reactions(requests, Agent.QUORATE) == pytest.approx([4.99, 6.0])


def test_writes_before_any_input_and_to_other_kinds_have_no_reaction(request_at: MakeRequest) -> None:
    requests = [
        request_at(0, "quorate", "patch", "kubeadmcontrolplanes"),
        request_at(1, "core", "patch", "machines"),
        request_at(2, "quorate", "create", "secrets", code=201),
        request_at(3, "quorate", "create", "events", code=201),
        request_at(4, "quorate", "update", "leases"),
    ]
    assert audit.reactions(requests, Agent.QUORATE) == []
