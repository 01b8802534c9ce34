"""Conversions side by side: the same object to quorate's server and to upstream's, and what the two answers differ in."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.differential.objects import CONVERSION_DATA, GROUP, KINDS, Maker
from tests.differential.servers import Refused, Server, Servers, schemas

Object = dict[str, Any]

OLD, NEW = f"{GROUP}/v1beta1", f"{GROUP}/v1beta2"
BATCH = 40  # objects in one review; where one of them is refused, each is asked for alone


@dataclass
class Comparison:
    """What came of it: how many conversions of each sort, how many of them both refused, and where the answers differ."""

    compared: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    different: int = 0

    def __str__(self) -> str:
        lines = [
            f"{sort:24} {count:6} conversions, {self.refused[sort]:5} refused by both" for sort, count in sorted(self.compared.items())
        ]
        return "\n".join([*lines, f"{'in all':24} {self.compared.total():6} conversions, {self.different:5} different"])


@dataclass
class Converters:
    """Both servers, and what came of comparing them."""

    upstream: Server
    quorate: Server
    result: Comparison = field(default_factory=Comparison)

    async def compare(self, sort: str, objects: Sequence[Object], version: str) -> list[Object | None]:
        """Convert the objects twice and compare. Returns upstream's answers, None where it refused."""
        answers: list[Object | None] = []
        for start in range(0, len(objects), BATCH):
            batch = objects[start : start + BATCH]
            theirs, ours = await _answers(self.upstream, batch, version), await _answers(self.quorate, batch, version)
            for obj, our, their in zip(batch, ours, theirs, strict=True):
                self._note(sort, obj, our, their)
                answers.append(their if isinstance(their, dict) else None)
        return answers

    def _note(self, sort: str, obj: Object, our: Object | str, their: Object | str) -> None:
        self.result.compared[sort] += 1
        if isinstance(our, str) and isinstance(their, str):
            self.result.refused[sort] += 1
        elif found := list(_found(our, their)):
            self.result.different += 1
            self.result.differences += [f"{sort}, {obj['kind']}: {line}" for line in found]


async def _answers(server: Server, objects: Sequence[Object], version: str) -> list[Object | str]:
    """What a server makes of each object, or why it refused."""
    try:
        return list(await server.convert(objects, version))
    except Refused as refused:
        if len(objects) == 1:
            return [str(refused)]
        return [(await _answers(server, [obj], version))[0] for obj in objects]


def _found(our: Object | str, their: Object | str) -> Iterator[str]:
    if isinstance(our, str):
        yield f"we refuse: {our}"
    elif isinstance(their, str):
        yield f"upstream refuses: {their}"
    else:
        yield from differences(our, their)


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where two JSON values differ, one line for each path; JSON within the annotation is compared as JSON."""
    if path.endswith(f".{CONVERSION_DATA}"):
        ours, theirs = (json.loads(each) if isinstance(each, str) else each for each in (ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key in ours and key in theirs:
                yield from differences(ours[key], theirs[key], f"{path}.{key}")
            else:
                whose = "ours" if key in ours else "upstream's"
                yield f"{path}.{key}: only {whose}: {json.dumps(ours.get(key, theirs.get(key)))}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(our, their, f"{path}[{index}]")
    elif json.dumps(ours) != json.dumps(theirs):
        yield f"{path}: ours {json.dumps(ours)}, upstream's {json.dumps(theirs)}"


async def compare(servers: Servers, *, count: int, seed: int) -> Comparison:
    """Make so many objects, half of them of either version, and convert each: there, back, and there again with changes in between."""
    chance = random.Random(seed)
    maker, both = Maker(schemas(), chance), Converters(servers.upstream, servers.quorate)
    new = [maker.object(chance.choice(KINDS), "v1beta2") for _ in range(count // 2)]
    old = [_with_kept(maker, maker.object(chance.choice(KINDS), "v1beta1")) for _ in range(count - count // 2)]
    lowered = [each for each in await both.compare("down", new, OLD) if each]
    await both.compare("down and up", lowered, NEW)
    await both.compare("down, changed and up", [maker.changed(each) for each in lowered], NEW)
    raised = [each for each in await both.compare("up", old, NEW) if each]
    await both.compare("up and down", [_served(maker, each) for each in raised], OLD)
    return both.result


def _with_kept(maker: Maker, obj: Object) -> Object:
    """In a third of the cases with what another object of v1beta2 would have left in the annotation, and in a few with what cannot be read."""
    luck = maker.random.random()
    if luck > 0.35:
        return obj
    kept = {key: value for key, value in maker.object(obj["kind"], "v1beta2").items() if key != "metadata"}
    text = json.dumps(kept) if luck > 0.02 else maker.random.choice(("", "{", "[]", '"text"', '{"spec": 1}', "null", "{}"))
    metadata = obj["metadata"]
    return obj | {"metadata": metadata | {"annotations": metadata.get("annotations", {}) | {CONVERSION_DATA: text}}}


def _served(maker: Maker, obj: Object) -> Object:
    """Mostly with a reference to a kind that is served, without which nothing comes down."""
    template = obj.get("spec", {}).get("machineTemplate", {}).get("spec", {})
    if "infrastructureRef" in template and maker.random.random() < 0.9:
        template["infrastructureRef"] = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "machines"}
    return obj
