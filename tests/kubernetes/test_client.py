"""What the client sends, and how it reads the answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from importlib.metadata import version
from typing import Any

import pytest

from quorate.kubernetes import errors
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import BadRequest, ServerError
from quorate.kubernetes.resource import CRDS, NODES, PODS, SECRETS, Resource

MACHINES: Resource[dict[str, Any]] = Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine", dict)


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


async def test_a_long_list_does_not_keep_others_from_their_turn(
    client: Client, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0
    decoded_in: Counter[int] = Counter()
    decode = client._decode

    def counting(type_: Any, *arguments: Any, **options: Any) -> Any:
        decoded_in[turns] += type_ is SECRETS.type
        return decode(type_, *arguments, **options)

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(client, "_decode", counting)
    api.replies = [fakes.reply({"metadata": {"resourceVersion": "9"}, "items": [fakes.secret(f"s-{number}") for number in range(500)]})]
    async with asyncio.TaskGroup() as tasks:
        other = tasks.create_task(others())
        await client.list(SECRETS, "default")
        other.cancel()
    assert decoded_in.total() == 500
    assert max(decoded_in.values()) <= 50


async def test_a_list_of_all_namespaces_with_nothing_on_it_is_empty(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"metadata": {"resourceVersion": "3"}, "items": []})]
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
    with pytest.raises(errors.Forbidden, match=r'list machines default: machines.* cannot list resource "machines"'):
        await client.list(MACHINES, "default")
    with pytest.raises(errors.Forbidden, match=r"^patch machines/status default/m: HTTP 403: <html>no</html>$"):
        await client.merge_patch(MACHINES, "m", {}, "default", subresource="status")


async def test_already_exists_is_no_conflict(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(409, "AlreadyExists", 'secrets "demo-ca" already exists')]
    with pytest.raises(errors.AlreadyExists, match="create secrets default: "):
        await client.create(SECRETS, fakes.secret(), "default")


DEEP = f'{{"metadata": {{"x": {"[" * 5000}{"]" * 5000}}}}}'


@pytest.mark.parametrize("text", ["<html>log in</html>", '{"metadata": {"name": 7}}', '{"metadata": {"name": "\\ud800"}}', "", DEEP])
async def test_an_answer_that_is_no_object_is_a_server_error(client: Client, api: Any, fakes: Any, text: str) -> None:
    api.replies = [fakes.reply(text)]
    with pytest.raises(ServerError, match="get secrets default/demo-ca: the answer cannot be read"):
        await client.get(SECRETS, "demo-ca", "default")


async def test_an_error_of_too_many_levels_is_an_error_and_no_more(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply(DEEP, 500)]
    with pytest.raises(ServerError, match="get secrets default/demo-ca: HTTP 500"):
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


async def test_a_custom_resource_definition_is_read_as_far_as_it_is_needed(client: Client, api: Any, fakes: Any) -> None:
    spec = {
        "group": "g",
        "names": {"plural": "as", "kind": "A"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {}}],
    }
    api.replies = [fakes.reply({"metadata": {"name": "as.g", "labels": {"c": "v1"}}, "spec": spec})]
    found = await client.get(CRDS, "as.g")
    assert (found.metadata.labels, found.spec.names.kind, found.spec.versions[0].storage) == ({"c": "v1"}, "A", True)
