"""Objects of more levels than a program can go down, beside others in lists and watches that all tenants share."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.types.resources import CLUSTERS
from quorate.kubernetes.client import Client
from quorate.kubernetes.depth import MOST, shallow
from quorate.kubernetes.errors import ServerError
from quorate.kubernetes.resource import Resource

DEEP = 9000  # levels; an API server stores 10,000


def cluster(name: str, value: str) -> str:
    """A Cluster with a variable of its topology, which may be any JSON."""
    variables = f'[{{"name":"v","value":{value}}}]'
    return f'{{"metadata":{{"name":"{name}","resourceVersion":"7"}},"spec":{{"topology":{{"version":"v1.34.4","variables":{variables}}}}}}}'


NESTED = {"lists": "[" * DEEP + "]" * DEEP, "objects": '{"]":' * DEEP + "1" + "}" * DEEP, "mixed": '[{"a\\"":' * DEEP + "[]" + "}]" * DEEP}


@pytest.mark.parametrize("value", NESTED.values(), ids=NESTED)
async def test_one_object_that_is_too_deep_hides_no_other(client: Client, api: Any, fakes: Any, value: str) -> None:
    listed = f'{{"metadata":{{"resourceVersion":"9"}},"items":[{cluster("deep", value)},{cluster("plain", "1")}]}}'
    api.replies = [fakes.reply(listed)]
    found = {each.metadata.name: each.spec.topology for each in (await client.list(CLUSTERS)).items}
    assert {name: topology and topology.version for name, topology in found.items()} == {"deep": "v1.34.4", "plain": "v1.34.4"}
    api.replies = [fakes.reply(f'{{"type":"ADDED","object":{cluster("deep", value)}}}\n')]
    async with aclosing(client.watch(CLUSTERS, resource_version="5")) as events:
        assert [event.object.metadata.name async for event in events] == ["deep"]


async def test_one_that_is_asked_for_by_itself_is_not_cut(client: Client, api: Any, fakes: Any) -> None:
    """A template, say, which would be cloned without what is missing."""
    api.replies = [fakes.reply(cluster("deep", NESTED["lists"]))]
    with pytest.raises(ServerError, match="get clusters default/deep: the answer cannot be read"):
        await client.get(CLUSTERS, "deep", "default")


async def test_where_all_objects_are_of_one_tenant_nothing_is_cut(connected: Any, api: Any, fakes: Any) -> None:
    """To cut takes time, which a workload cluster that sends without pause would take from all others."""
    api.replies = [fakes.reply(f'{{"metadata":{{}},"items":[{cluster("deep", NESTED["lists"])}]}}')]
    with pytest.raises(ServerError, match="list clusters: the answer cannot be read"):
        await connected(api, most_values=100_000).list(CLUSTERS)


documents = st.recursive(
    st.none() | st.text(max_size=4) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(documents, st.integers(0, 2 * MOST))
def test_what_is_not_too_deep_stays_as_it_is(document: Any, levels: int) -> None:
    text = "[" * levels + json.dumps(document) + "]" * levels
    found = json.loads(shallow(text.encode()))
    for _ in range(min(levels, MOST)):
        (found,) = found
    assert found == (document if levels + depth_of(document) <= MOST else cut(document, MOST - levels))


def depth_of(document: Any) -> int:
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def cut(document: Any, levels: int) -> Any:
    if levels < 0 or (levels == 0 and isinstance(document, list | dict)):
        return None
    if isinstance(document, dict):
        return {key: cut(value, levels - 1) for key, value in document.items()}
    return [cut(value, levels - 1) for value in document] if isinstance(document, list) else document


async def test_one_foreign_object_whose_specification_is_none_hides_no_other(client: Client, api: Any, fakes: Any) -> None:
    """Which an API server stores where its definition leaves the specification open."""
    machines = Resource("infrastructure.example.com", "v1", "examplemachines", "ExampleMachine", ForeignObject)
    odd = [{"metadata": {"name": f"odd-{number}"}, "spec": spec} for number, spec in enumerate((None, "text", [1], 2.5))]
    api.replies = [
        fakes.reply({"metadata": {"resourceVersion": "9"}, "items": [*odd, {"metadata": {"name": "m"}, "spec": {"providerID": "p"}}]})
    ]
    found = {each.metadata.name: each.provider_id for each in (await client.list(machines)).items}
    assert found == {"odd-0": "", "odd-1": "", "odd-2": "", "odd-3": "", "m": "p"}
