"""What is sent again and what never is: refusals, pauses, lost connections, deadlines and turns."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from quorate.kubernetes import errors
from quorate.kubernetes.client import Client
from quorate.kubernetes.config import Impersonation, RestConfig
from quorate.kubernetes.errors import ConnectionFailed, ServerError, Timeout, TooManyRequests, Unauthorized
from quorate.kubernetes.resource import NODES, SECRETS


class Tokens:
    """Credentials that give each token of a list until it is refused."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)
        self.rejections = 0

    async def token(self) -> str:
        return self._tokens[0]

    async def certificate(self) -> None:
        return None

    def reject(self) -> None:
        self.rejections += 1
        if len(self._tokens) > 1:
            del self._tokens[0]


@pytest.mark.parametrize("code", [429, 503])
async def test_retry_after_is_honoured_within_the_deadline(client: Client, api: Any, fakes: Any, code: int) -> None:
    api.replies = [fakes.reply({}, code, {"Retry-After": "1"}), fakes.reply(fakes.secret())]
    started = asyncio.get_running_loop().time()
    await client.get(SECRETS, "demo-ca", "default")
    assert asyncio.get_running_loop().time() - started >= 1
    assert len(api.seen) == 2


@pytest.mark.parametrize(("code", "kind"), [(429, TooManyRequests), (503, ServerError)])
async def test_retry_after_beyond_the_deadline_is_an_error_at_once(
    client: Client, api: Any, fakes: Any, code: int, kind: type[ServerError]
) -> None:
    api.replies = [fakes.reply({}, code, {"Retry-After": "60"})]
    with pytest.raises(kind) as caught:
        await client.get(SECRETS, "demo-ca", "default")
    assert (caught.value.retry_after, len(api.seen)) == (60.0, 1)


async def test_without_retry_after_nothing_is_repeated(client: Client, api: Any, fakes: Any) -> None:
    for headers in ({}, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {"Retry-After": "\u00b2"}):
        api.replies = [fakes.reply({}, 503, headers)]
        with pytest.raises(ServerError):
            await client.get(SECRETS, "demo-ca", "default")
    assert len(api.seen) == 3


async def test_a_create_is_repeated_after_429_but_not_after_503(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({}, 429, {"Retry-After": "0"}), fakes.reply({}, 503, {"Retry-After": "0"})]
    with pytest.raises(ServerError) as caught:
        await client.create(SECRETS, fakes.secret(), "default")
    assert (caught.value.code, len(api.seen)) == (503, 2)


async def test_a_retry_after_of_nothing_does_not_spin(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({}, 429, {"Retry-After": "0"})]
    with pytest.raises((TooManyRequests, Timeout)):
        await connected(api, timeout=1.5).get(SECRETS, "demo-ca", "default")
    assert 2 <= len(api.seen) <= 15


async def test_no_redirect_leads_to_another_server(client: Client, api: Any, serve: Any, fakes: Any) -> None:
    """Its answer would be quoted in a condition, and it may be one that only whoever asks can reach."""
    other = await serve()
    other.replies = [fakes.failure(403, "Forbidden", "what nobody else is told")]
    api.replies = [fakes.reply({}, 307, {"Location": f"{other.url}/latest/meta-data"})]
    calls = (client.get_raw("/"), client.merge_patch(SECRETS, "demo-ca", {}, "default"), client.connect_websocket("/x", ("p",)))
    for call in calls:
        with pytest.raises(ConnectionFailed, match=r"the server redirects to .*, which is not followed"):
            await call
    assert other.seen == []


async def test_a_refused_token_is_renewed_once(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(401, "Unauthorized"), fakes.reply(fakes.secret())]
    tokens = Tokens("old", "new")
    await connected(api, config={"credentials": tokens}).get(SECRETS, "demo-ca", "default")
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer old", "Bearer new"]
    assert tokens.rejections == 1


async def test_a_token_refused_twice_is_an_error(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(401, "Unauthorized", "who are you")]
    with pytest.raises(Unauthorized, match="get secrets default/demo-ca: who are you"):
        await connected(api, config={"credentials": Tokens("old", "new", "newer")}).get(SECRETS, "demo-ca", "default")
    assert len(api.seen) == 2


async def test_a_refused_token_that_stays_the_same_is_not_sent_again(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(401, "Unauthorized")]
    with pytest.raises(Unauthorized):
        await connected(api, config={"credentials": Tokens("only")}).get(SECRETS, "demo-ca", "default")
    with pytest.raises(Unauthorized):
        await connected(api).get(SECRETS, "demo-ca", "default")
    assert len(api.seen) == 2


async def test_of_many_requests_refused_at_once_one_renews_the_token(api: Any, connected: Any, fakes: Any) -> None:
    async def by_token(request: web.Request) -> web.StreamResponse:
        good = request.headers["Authorization"] == "Bearer new"
        answer: web.StreamResponse = await (fakes.reply(fakes.secret()) if good else fakes.failure(401, "Unauthorized"))(request)
        return answer

    api.replies = [by_token]
    tokens = Tokens("old", "new", "never")
    client = connected(api, config={"credentials": tokens})
    async with asyncio.TaskGroup() as tasks:
        for _ in range(5):
            tasks.create_task(client.get(SECRETS, "demo-ca", "default"))
    assert tokens.rejections == 1


async def test_a_connection_that_went_stale_is_replaced_once(client: Client, api: Any, fakes: Any) -> None:
    ok, applied = fakes.reply(fakes.secret()), {"metadata": {"name": "demo-ca"}}
    api.replies = [ok, fakes.hang_up, ok, fakes.hang_up, ok, fakes.hang_up, ok]
    for _ in range(2):
        await client.get(SECRETS, "demo-ca", "default")
    await client.delete(SECRETS, "demo-ca", "default")
    await client.apply(SECRETS, applied, "default", field_manager="me")
    assert [seen.method for seen in api.seen] == ["GET", "GET", "GET", "DELETE", "DELETE", "PATCH", "PATCH"]


async def test_a_connection_that_breaks_twice_is_an_error(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.hang_up]
    with pytest.raises(ConnectionFailed, match="get secrets default/demo-ca: "):
        await client.get(SECRETS, "demo-ca", "default")
    assert len(api.seen) == 2
    with pytest.raises(ConnectionFailed):
        await client.apply(SECRETS, {"metadata": {"name": "demo-ca"}}, "default", field_manager="me")
    assert len(api.seen) == 4


async def test_what_is_not_idempotent_is_never_sent_twice(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.hang_up]
    for call in (
        client.create(SECRETS, fakes.secret(), "default"),
        client.merge_patch(SECRETS, "demo-ca", {}, "default"),
        client.json_patch(SECRETS, "demo-ca", [], "default"),
    ):
        with pytest.raises(ConnectionFailed):
            await call
    assert [seen.method for seen in api.seen] == ["POST", "PATCH", "PATCH"]


async def test_where_nobody_listens_the_connection_fails(connected: Any, api: Any, unused_tcp_port: int) -> None:
    client = connected(api, config={"server": f"http://127.0.0.1:{unused_tcp_port}"})
    with pytest.raises(ConnectionFailed, match=f"get nodes n: .*127.0.0.1:{unused_tcp_port}"):
        await client.get(NODES, "n")


async def test_every_call_has_a_deadline(api: Any, connected: Any) -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(10)
        return web.Response()

    api.replies = [never]
    client, started = connected(api, timeout=0.2), asyncio.get_running_loop().time()
    with pytest.raises(Timeout, match=r"get nodes n: no answer within 0.2 s"):
        await client.get(NODES, "n")
    with pytest.raises(Timeout, match=r"connect /x: no answer within 0.2 s"):
        await client.connect_websocket("/x", ("p",))
    assert asyncio.get_running_loop().time() - started < 9


class SlowLogin:
    """Credentials for which somebody has to log in, which takes longer than a request may."""

    async def token(self) -> str:
        await asyncio.sleep(1.6)
        return "token"

    async def certificate(self) -> None:
        return None

    def reject(self) -> None:
        raise AssertionError


async def test_a_login_may_take_longer_than_a_request(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    assert await connected(api, config={"credentials": SlowLogin()}, timeout=1.5).get_raw("/") == b"ok"


async def test_the_deadline_of_a_request_goes_on_after_the_login(api: Any, connected: Any) -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    api.replies = [never]
    with pytest.raises(Timeout):
        await connected(api, config={"credentials": SlowLogin()}, timeout=0.3).get_raw("/")


async def test_whoever_acts_as_somebody_else_says_so(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    as_ = Impersonation("jane", "7", ("developers", "auditors"), {"example.com/Zone": ("a", "b")})
    await connected(api, config={"impersonation": as_}).get_raw("/")
    headers = [(name, value) for name, value in api.seen[0].headers.items() if name.startswith("Impersonate")]
    assert headers == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "developers"),
        ("Impersonate-Group", "auditors"),
        ("Impersonate-Extra-example.com%2FZone", "a"),
        ("Impersonate-Extra-example.com%2FZone", "b"),
    ]


async def test_requests_wait_for_their_turn_on_the_loop_s_time(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    client, started = connected(api, qps=20.0, burst=2), asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(6):
            tasks.create_task(client.get_raw("/"))
    assert asyncio.get_running_loop().time() - started >= 4 / 20 - 0.01


async def test_the_wait_for_a_turn_counts_towards_the_deadline(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    client = connected(api, qps=0.1, burst=1, timeout=1.5)
    await client.get_raw("/")
    with pytest.raises(Timeout):
        await client.get_raw("/")
    assert len(api.seen) == 1


async def test_each_answer_is_counted_by_method_host_and_code(api: Any, connected: Any, fakes: Any) -> None:
    counted: list[tuple[str, str, str]] = []
    client = connected(api, on_request=lambda *labels: counted.append(labels))
    host = api.url.removeprefix("http://")
    api.replies = [fakes.reply("ok"), fakes.failure(404, "NotFound"), fakes.hang_up]
    await client.get_raw("/")
    with pytest.raises(errors.NotFound):
        await client.delete(NODES, "n")
    with pytest.raises(ConnectionFailed):
        await client.create(NODES, {})
    with pytest.raises(ConnectionFailed):
        await anext(client.watch(NODES, resource_version="1"))
    assert counted == [("GET", host, "200"), ("DELETE", host, "404"), ("POST", host, "<error>"), ("GET", host, "<error>")]


async def test_a_websocket_speaks_the_protocol_and_carries_the_token(api: Any, connected: Any) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await websocket.prepare(request)
        await websocket.send_bytes(await websocket.receive_bytes())
        await websocket.close()
        return websocket

    api.replies = [echo]
    client = connected(api, config={"credentials": Tokens("t")})
    async with await client.connect_websocket("/api/v1/namespaces/a/pods/b/portforward?ports=2379", ("v4.channel.k8s.io",)) as websocket:
        assert websocket.protocol == "v4.channel.k8s.io"
        await websocket.send_bytes(b"hello")
        assert await websocket.receive_bytes() == b"hello"
        assert (await websocket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert (api.seen[0].query, api.seen[0].headers["Authorization"]) == ({"ports": "2379"}, "Bearer t")


async def test_a_websocket_accepts_any_representation_as_the_api_server_refuses_json_for_a_port_forward(client: Client, api: Any) -> None:
    async def represent(request: web.Request) -> web.StreamResponse:
        if request.headers["Accept"] != "*/*":
            raise web.HTTPNotAcceptable
        websocket = web.WebSocketResponse(protocols=("p",))
        await websocket.prepare(request)
        await websocket.close()
        return websocket

    api.replies = [represent]
    async with await client.connect_websocket("/api/v1/namespaces/a/pods/b/portforward?ports=2379", ("p",)) as websocket:
        assert websocket.protocol == "p"


async def test_a_websocket_that_is_refused_is_a_typed_error(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(403, "Forbidden", "no")]
    with pytest.raises(errors.Forbidden, match=r"^connect /api/v1/pods/b/portforward: HTTP 403 instead of a WebSocket$"):
        await client.connect_websocket("/api/v1/pods/b/portforward?ports=1", ("p",))


async def test_a_websocket_s_refused_token_is_renewed(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(401, "Unauthorized"), fakes.failure(404, "NotFound")]
    with pytest.raises(errors.NotFound):
        await connected(api, config={"credentials": Tokens("old", "new")}).connect_websocket("/x", ("p",))
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer old", "Bearer new"]


async def test_a_closed_client_connects_again(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    for _ in range(2):
        assert await client.get_raw("/") == b"ok"
        await client.close()
        await client.close()


async def test_a_client_that_is_closed_while_a_request_resolves_a_name_fails_it_and_cancels_nobody(
    connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object, **__: object) -> Any:
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    client = connected(RestConfig(server="http://api.example.com:6443"))
    asked = asyncio.gather(*(client.get_raw("/livez") for _ in range(2)), return_exceptions=True)
    await asyncio.sleep(0.1)
    await client.close()
    assert [type(each) for each in await asyncio.wait_for(asked, 5)] == [ConnectionFailed] * 2


async def test_cookies_are_not_kept(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok", headers={"Set-Cookie": "route=1"}), fakes.reply("ok")]
    await client.get_raw("/")
    await client.get_raw("/")
    assert "Cookie" not in api.seen[1].headers


@pytest.mark.parametrize("code", [200, 500])
async def test_an_answer_without_end_is_read_no_further_than_it_may_be(connected: Any, api: Any, fakes: Any, code: int) -> None:
    client = connected(api, largest=1 << 20)
    api.replies = [fakes.reply({"message": "x" * (8 << 20)}, code)]
    with pytest.raises(ConnectionFailed if code == 200 else ServerError) as caught:
        await client.get(SECRETS, "demo-ca", "default")
    assert len(str(caught.value)) < 3000
    assert code == 500 or "more than 1 MiB" in str(caught.value)
    api.replies = [fakes.reply(fakes.secret())]
    assert (await client.get(SECRETS, "demo-ca", "default")).metadata.name == "demo-ca"
