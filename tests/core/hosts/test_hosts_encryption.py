"""Keys of API servers: every order of steps, cuts, restarts, reloads and changes of mind; at no moment is there a Secret that an API server cannot read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from quorate.core.hosts.encryption import (
    IDENTITY,
    NEW,
    PLAIN,
    SECRETS,
    Change,
    Configuration,
    Desired,
    Encryption,
    Rewrite,
    disagreement,
    next_change,
)
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.state import RunOptions
from quorate.core.hosts.steps import ChangeEncryption

from .conftest import Build

A, B, C = "secretbox:a:1", "secretbox:b:2", "aescbc:c:3"


def of(*providers: str, **others: tuple[str, ...]) -> Configuration:
    return Configuration.made({SECRETS: providers, **others})


CUSTOM = of(C, IDENTITY)
NOTHING = Encryption()
WISHES = {"off": PLAIN, "on": None, "rotate": None, "custom": CUSTOM}


@dataclass(frozen=True)
class Server:
    """One API server: what its files say, and what it runs with."""

    seen: Encryption = NOTHING
    runs: Configuration = PLAIN


@dataclass(frozen=True)
class State:
    """`stored` are the providers that some Secret is stored with. Clients write at every moment: what any server writes with is always among them."""

    servers: tuple[Server, ...]
    stored: frozenset[str]
    written: str = ""
    wish: str = "off"
    changes_left: int = 2
    made: int = 0  # keys
    rotated: bool = False

    def with_server(self, number: int, server: Server) -> State:
        servers = (*self.servers[:number], server, *self.servers[number + 1 :])
        return replace(self, servers=servers, stored=self.stored | {server.runs.secrets[0]})

    @property
    def decision(self) -> Change | Rewrite | None:
        hosts = {str(number): server.seen for number, server in enumerate(self.servers)}
        assert disagreement(hosts) == ""
        return next_change(hosts, Desired(WISHES[self.wish], self.written), rotate=self.wish == "rotate" and not self.rotated)


def done(state: State) -> Iterator[State]:
    """The states after each act of the step that is decided on; a crash may leave any of them behind."""
    match state.decision:
        case Rewrite(provider):
            assert {server.runs.secrets[0] for server in state.servers} == {provider}, "rewritten before all write with it"
            yield replace(state, stored=state.stored | {provider})
            yield replace(state, stored=frozenset({provider}))
            yield replace(state, stored=frozenset({provider}), written=provider)
        case Change(host, configuration):
            yield from _changed(state, int(host), configuration)


def _changed(state: State, number: int, configuration: Configuration) -> Iterator[State]:
    if NEW in configuration.secrets:
        key = f"secretbox:n{state.made}:0"
        configuration = of(*(key if provider == NEW else provider for provider in configuration.secrets))
        state = replace(state, made=state.made + 1)
    state = replace(state, rotated=state.rotated or len(configuration.keys) > 1)
    before = state.servers[number]
    if state.written and state.written != configuration.secrets[0]:
        state = replace(state, written="")
        yield state
    lost = before.seen.configuration.keys | (before.seen.spare or PLAIN).keys
    if configuration == PLAIN:
        if before.seen.flagged:
            state = state.with_server(number, Server(Encryption(in_use=False, spare=before.seen.configuration), before.runs))
            yield state
        state = state.with_server(number, Server(replace(state.servers[number].seen, in_use=True), PLAIN))
        yield state
    else:
        if not before.seen.flagged:
            state = state.with_server(number, Server(Encryption(spare=configuration), before.runs))
            yield state
        state = state.with_server(number, Server(Encryption(configuration, flagged=True, in_use=False), before.runs))
        yield state
    assert not (lost - configuration.keys) & state.stored, f"{lost - configuration.keys} goes, and Secrets are stored with it"
    yield state.with_server(number, Server(Encryption(configuration, flagged=configuration != PLAIN), configuration))


def happening(state: State) -> Iterator[State]:
    """What others do: an API server starts again or reads its file again, and the operator thinks otherwise."""
    for number, server in enumerate(state.servers):
        if not server.seen.in_use and server.runs != server.seen.configuration:
            yield state.with_server(number, Server(server.seen, server.seen.configuration))
    if state.changes_left:
        for wish in WISHES:
            if wish != state.wish:
                yield replace(state, wish=wish, changes_left=state.changes_left - 1, rotated=False)


def all_can_read(state: State) -> bool:
    return all(state.stored <= set(server.runs.secrets) for server in state.servers)


def starts(servers: int) -> list[State]:
    at_rest = Server(Encryption(of(A, IDENTITY), flagged=True), of(A, IDENTITY))
    left_over = Server(Encryption(spare=of(A, IDENTITY)))
    plain = frozenset({IDENTITY})
    return [
        State((Server(),) * servers, plain),
        State((at_rest,) * servers, frozenset({A}), A, "on"),
        State((at_rest,) * servers, frozenset({A, IDENTITY}), "", "rotate"),
        State((left_over,) * servers, plain, IDENTITY, "on"),
    ]


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_in_every_order_each_server_reads_what_any_has_written(servers: int) -> None:
    waiting = deque(starts(servers))
    seen = set(waiting)
    while waiting:
        state = waiting.popleft()
        for after in (*done(state), *happening(state)):
            assert all_can_read(after), f"{state}\nwants {state.decision}\n{after}"
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    for state in seen:
        assert reached(state)


_GOOD: set[State] = set()


def reached(state: State) -> bool:
    """Left to itself, it comes to rest where the manifest wants it, with no key too many."""
    way = []
    while state not in _GOOD and state.decision is not None:
        way.append(state)
        assert len(way) < 60, f"it comes to no rest: {state}"
        *_, state = done(state)
    if state not in _GOOD:
        rests_well(state)
    _GOOD.update(way, [state])
    return True


def rests_well(state: State) -> None:
    lists = {server.runs for server in state.servers}
    assert len(lists) == 1, state
    runs = lists.pop()
    assert state.stored == {runs.secrets[0]} or state.wish == "off"
    assert {server.seen for server in state.servers} == {Encryption(runs, flagged=runs != PLAIN)}, state
    match WISHES[state.wish]:
        case None:
            assert (len(runs.secrets), len(runs.keys), runs.secrets[1]) == (2, 1, IDENTITY), state
        case wanted:
            assert runs == wanted, state


def test_an_exchange_of_keys_that_was_cut_at_its_end_and_is_asked_for_again_is_ended_and_not_begun_anew(build: Build) -> None:
    with_both, with_one = Encryption(of(B, A, IDENTITY), flagged=True), Encryption(of(B, IDENTITY), flagged=True)
    hosts = (build.host(1, encryption=with_one), build.host(2, encryption=with_both), build.host(3, encryption=with_both))
    cluster = build.cluster(*hosts, encryption=Desired(None, B), options=RunOptions(rotate_encryption_key=True))
    foreseen = forecast(cluster, build.noon)
    assert [str(step.step) for step in foreseen.steps] == [str(ChangeEncryption(name, of(B, IDENTITY))) for name in ("cp-2", "cp-3")]


def test_an_api_server_that_is_alone_can_be_given_the_file_before_again_at_every_stage() -> None:
    """As it is where it does not come up: what it has written meanwhile has to be read with that one."""
    configuration, written, stages = of(A, IDENTITY), A, 0
    while change := next_change({"h1": Encryption(configuration, flagged=True)}, Desired(of(B, IDENTITY), written)):
        if isinstance(change, Rewrite):
            written = change.provider
            continue
        assert change.configuration.secrets[0] in configuration.secrets
        configuration, stages = change.configuration, stages + 1
    assert (configuration, written, stages) == (of(B, IDENTITY), B, 3)
