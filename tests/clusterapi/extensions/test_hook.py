"""CanUpdateMachine on the wire."""

from __future__ import annotations

import base64

import msgspec
import pytest

from quorate.clusterapi.extensions import hook
from quorate.clusterapi.extensions.hook import Failed, MachineObjects, NotAnAnswer, Patches
from quorate.clusterapi.extensions.patches import JSON_PATCH, Patch

OBJECTS = MachineObjects({"metadata": {"name": "m"}}, {"kind": "DevMachine"}, {"kind": "KubeadmConfig"})


def test_the_question_has_upstreams_names() -> None:
    asked = msgspec.json.decode(hook.question(OBJECTS, OBJECTS, {"key": "value"}))
    assert asked == {
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1",
        "kind": "CanUpdateMachineRequest",
        "settings": {"key": "value"},
        "current": {
            "machine": {"metadata": {"name": "m"}},
            "infrastructureMachine": {"kind": "DevMachine"},
            "bootstrapConfig": {"kind": "KubeadmConfig"},
        },
        "desired": {
            "machine": {"metadata": {"name": "m"}},
            "infrastructureMachine": {"kind": "DevMachine"},
            "bootstrapConfig": {"kind": "KubeadmConfig"},
        },
    }
    assert "settings" not in msgspec.json.decode(hook.question(OBJECTS, OBJECTS, {}))


def test_an_answer_and_its_patches_in_base64() -> None:
    data = base64.b64encode(b'[{"op":"remove","path":"/spec/a"}]').decode()
    given = {
        "status": "Success",
        "bootstrapConfigPatch": {"patchType": JSON_PATCH, "patch": data},
        "machinePatch": {"patchType": JSON_PATCH, "patch": None},
    }
    later = {"affectsAvailability": False, "kind": "CanUpdateMachineResponse"}
    assert hook.answer(msgspec.json.encode({**given, **later})) == Patches(
        machine=Patch(JSON_PATCH), infrastructure=Patch(), config=Patch(JSON_PATCH, b'[{"op":"remove","path":"/spec/a"}]')
    )


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"<html>", b"\xff", b'{"status":5}', b'{"status":"Success","machinePatch":{"patch":"@"}}', b"[" * 10_000]
)
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        hook.answer(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"status":"Failure","message":"no room\\u001b[2J"}', "no room"),
        (b'{"status":"Failure"}', "no reason"),
        (b'{"status":"Maybe"}', "Maybe"),
        (b"{}", "neither"),
    ],
)
def test_a_failure_is_told_in_the_extensions_words_as_a_line(data: bytes, said: str) -> None:
    with pytest.raises(Failed) as failure:
        hook.answer(data)
    assert said in str(failure.value)
    assert str(failure.value).isprintable()
