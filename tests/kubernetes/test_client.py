"""What the client sends, how it reads the answers, and what it does when there is none."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from quorate.kubernetes import errors
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import BadRequest, ConnectionFailed, ServerError, Timeout, TooManyRequests, Unauthorized
from quorate.kubernetes.resource import CRDS, NODES, PODS, SECRETS, Resource

MACHINES: Resource[dict[str, Any]] = Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine", dict)


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


async def test_get_reads_one_object(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply(fakes.secret())]
    found = await client.get(SECRETS, "demo-ca", "default")
    assert (found.metadata.resource_version, found.data) == ("7", {"tls.key": b"hunter2"})
    assert (api.seen[0].method, api.seen[0].path) == ("GET", "/api/v1/namespaces/default/secrets/demo-ca")


async def test_foreign_kinds_stay_as_they_are(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"metadata": {"name": "m"}, "spec": {"unknown": [1]}})]
    assert await client.get(MACHINES, "m", "default") == {"metadata": {"name": "m"}, "spec": {"unknown": [1]}}
    assert api.seen[0].path == "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/m"


async def test_get_raw_gives_the_bytes(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    assert await client.get_raw("/readyz?verbose") == b"ok"
    assert (api.seen[0].path, api.seen[0].query) == ("/readyz", {"verbose": ""})


async def test_the_user_agent_has_the_version_and_may_have_more(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    await connected(api).get_raw("/")
    await connected(api, user_agent="quorate/1 workload").get_raw("/")
    assert [seen.headers["User-Agent"] for seen in api.seen] == [f"quorate/{version('quorate')}", "quorate/1 workload"]


async def test_a_list_is_read_page_by_page_from_one_state(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [
        fakes.reply({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [fakes.secret("a"), fakes.secret("b")]}),
        fakes.reply({"metadata": {"resourceVersion": "9", "continue": ""}, "items": [fakes.secret("c")]}),
    ]
    listing = await client.list(SECRETS, "default", label_selector="a=b", field_selector="type=x", limit=2, resource_version="0")
    assert ([item.metadata.name for item in listing.items], listing.resource_version) == (["a", "b", "c"], "9")
    selectors = {"labelSelector": "a=b", "fieldSelector": "type=x", "limit": "2"}
    assert [seen.query for seen in api.seen] == [{**selectors, "resourceVersion": "0"}, {**selectors, "continue": "more"}]


async def test_a_list_of_all_namespaces_that_is_null_is_empty(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"metadata": {"resourceVersion": "3"}, "items": None})]
    listing = await client.list(PODS)
    assert (listing.items, listing.resource_version) == ([], "3")
    assert (api.seen[0].path, api.seen[0].query) == ("/api/v1/pods", {"limit": "500"})


async def test_an_expired_continue_token_is_gone(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [
        fakes.reply({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": []}),
        fakes.failure(410, "Expired", "the provided continue parameter is too old"),
    ]
    with pytest.raises(errors.Gone, match="list pods: the provided continue parameter is too old"):
        await client.list(PODS)


async def test_create_posts_the_body(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply(fakes.secret(), 201)]
    await client.create(SECRETS, fakes.secret(), "default", field_manager="capi-kubeadmcontrolplane")
    (seen,) = api.seen
    assert (seen.method, seen.path, seen.query) == (
        "POST",
        "/api/v1/namespaces/default/secrets",
        {"fieldManager": "capi-kubeadmcontrolplane"},
    )
    assert (seen.headers["Content-Type"], seen.json) == ("application/json", fakes.secret())


async def test_delete_sends_its_preconditions(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"kind": "Status", "status": "Success"})]
    assert await client.delete(SECRETS, "s", "default", uid="u", resource_version="7", propagation="Foreground") is None
    assert (api.seen[0].method, api.seen[0].path) == ("DELETE", "/api/v1/namespaces/default/secrets/s")
    assert api.seen[0].json == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
    }


async def test_delete_without_preconditions_sends_none(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"kind": "Status", "status": "Success"})]
    await client.delete(SECRETS, "s", "default")
    assert api.seen[0].json == {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}


async def test_delete_gives_the_object_that_finalizers_hold_though_its_status_is_an_object(client: Client, api: Any, fakes: Any) -> None:
    held = {"kind": "Machine", "metadata": {"name": "m", "resourceVersion": "12"}, "status": {"phase": "Deleting"}}
    api.replies = [fakes.reply(held)]
    assert await client.delete(MACHINES, "m", "default") == held


async def test_a_precondition_that_does_not_hold_is_a_conflict(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(409, "Conflict", "the UID in the precondition does not match")]
    with pytest.raises(errors.Conflict, match="delete secrets default/s: the UID"):
        await client.delete(SECRETS, "s", "default", uid="u")


async def test_merge_patch_says_what_it_is(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"metadata": {"name": "m"}})]
    await client.merge_patch(MACHINES, "m", {"status": {"a": None}}, "default", subresource="status", field_manager="me")
    (seen,) = api.seen
    assert (seen.method, seen.path) == ("PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/m/status")
    assert (seen.headers["Content-Type"], seen.query) == ("application/merge-patch+json", {"fieldManager": "me"})
    assert seen.json == {"status": {"a": None}}


async def test_json_patch_says_what_it_is(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"metadata": {"name": "n"}})]
    operations = [{"op": "remove", "path": "/spec/taints/0"}]
    await client.json_patch(NODES, "n", operations, field_manager="me")
    (seen,) = api.seen
    assert (seen.method, seen.path, seen.query) == ("PATCH", "/api/v1/nodes/n", {"fieldManager": "me"})
    assert (seen.headers["Content-Type"], seen.json) == ("application/json-patch+json", operations)


@pytest.mark.parametrize(("force", "query"), [(True, {"fieldManager": "me", "force": "true"}), (False, {"fieldManager": "me"})])
async def test_apply_says_what_it_is(client: Client, api: Any, fakes: Any, force: bool, query: dict[str, str]) -> None:
    api.replies = [fakes.reply({"metadata": {"name": "m"}})]
    await client.apply(MACHINES, {"metadata": {"name": "m"}}, "default", field_manager="me", force=force, subresource="status")
    (seen,) = api.seen
    assert (seen.method, seen.path) == ("PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/m/status")
    assert (seen.headers["Content-Type"], seen.query) == ("application/apply-patch+yaml", query)


async def test_forbidden_names_the_verb_and_the_resource(client: Client, api: Any, fakes: Any) -> None:
    message = 'machines.cluster.x-k8s.io is forbidden: User "kcp" cannot list resource "machines"'
    api.replies = [fakes.failure(403, "Forbidden", message), fakes.reply("<html>no</html>", 403)]
    with pytest.raises(errors.Forbidden, match='list machines default: machines.* cannot list resource "machines"'):
        await client.list(MACHINES, "default")
    with pytest.raises(errors.Forbidden, match="^patch machines/status default/m: HTTP 403: <html>no</html>$"):
        await client.merge_patch(MACHINES, "m", {}, "default", subresource="status")


async def test_already_exists_is_no_conflict(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(409, "AlreadyExists", 'secrets "demo-ca" already exists')]
    with pytest.raises(errors.AlreadyExists, match="create secrets default: "):
        await client.create(SECRETS, fakes.secret(), "default")


@pytest.mark.parametrize("text", ["<html>log in</html>", '{"metadata": {"name": 7}}', '{"metadata": {"name": "\\ud800"}}', ""])
async def test_an_answer_that_is_no_object_is_a_server_error(client: Client, api: Any, fakes: Any, text: str) -> None:
    api.replies = [fakes.reply(text)]
    with pytest.raises(ServerError, match="get secrets default/demo-ca: the answer cannot be read"):
        await client.get(SECRETS, "demo-ca", "default")


@pytest.mark.parametrize("name", ["", ".", "..", "../configmaps/x", "a/b", "a?b", "a#b", "a%2fb", "a\\b"])
async def test_a_name_that_is_a_path_reaches_no_server(client: Client, api: Any, name: str) -> None:
    for call in (
        client.get(SECRETS, name, "default"),
        client.delete(SECRETS, name, "default"),
        client.merge_patch(SECRETS, name, {}, "default"),
    ):
        with pytest.raises(BadRequest, match="name"):
            await call
    assert api.seen == []


async def test_a_namespace_that_is_a_path_reaches_no_server(client: Client, api: Any) -> None:
    with pytest.raises(BadRequest, match="is no path"):
        await client.list(SECRETS, "../nodes")
    assert api.seen == []


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
    with pytest.raises(TooManyRequests):
        await connected(api, timeout=0.55).get(SECRETS, "demo-ca", "default")
    assert 2 <= len(api.seen) <= 6


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
    with pytest.raises(Timeout, match="get nodes n: no answer within 0.2 s"):
        await client.get(NODES, "n")
    with pytest.raises(Timeout, match="connect /x: no answer within 0.2 s"):
        await client.connect_websocket("/x", ("p",))
    assert asyncio.get_running_loop().time() - started < 2


async def test_requests_wait_for_their_turn_on_the_loop_s_time(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    client, started = connected(api, qps=20.0, burst=2), asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(6):
            tasks.create_task(client.get_raw("/"))
    assert asyncio.get_running_loop().time() - started >= 4 / 20 - 0.01


async def test_the_wait_for_a_turn_counts_towards_the_deadline(api: Any, connected: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok")]
    client = connected(api, qps=0.1, burst=1, timeout=0.2)
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


async def test_a_websocket_that_is_refused_is_a_typed_error(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(403, "Forbidden", "no")]
    with pytest.raises(errors.Forbidden, match="^connect /api/v1/pods/b/portforward: HTTP 403 instead of a WebSocket$"):
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


async def test_cookies_are_not_kept(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply("ok", headers={"Set-Cookie": "route=1"}), fakes.reply("ok")]
    await client.get_raw("/")
    await client.get_raw("/")
    assert "Cookie" not in api.seen[1].headers


async def test_a_custom_resource_definition_is_read_as_far_as_it_is_needed(client: Client, api: Any, fakes: Any) -> None:
    spec = {
        "group": "g",
        "names": {"plural": "as", "kind": "A"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {}}],
    }
    api.replies = [fakes.reply({"metadata": {"name": "as.g", "labels": {"c": "v1"}}, "spec": spec})]
    found = await client.get(CRDS, "as.g")
    assert (found.metadata.labels, found.spec.names.kind, found.spec.versions[0].storage) == ({"c": "v1"}, "A", True)


async def test_a_list_of_5000_pods_decodes_in_well_under_a_second(client: Client, api: Any, fakes: Any) -> None:
    pod = {"metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}}, "spec": {"x": ["y"] * 100}, "status": {"phase": "Running"}}
    api.replies = [fakes.reply({"metadata": {"resourceVersion": "1"}, "items": [pod] * 5000})]
    started = time.process_time()
    assert len((await client.list(PODS, limit=5000)).items) == 5000
    assert time.process_time() - started < 3  # 0.1 s alone; the rest is room for a busy machine
