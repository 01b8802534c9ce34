"""Steps as a reader sees them."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from quorate.core.machines import steps

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "AddFinalizer": (),
    "EnsureCertificates": (("ca", "etcd"),),
    "WriteKubeconfig": (True,),
    "CreateReplica": ("zone-a", False),
    "AbandonCreation": ("cp-9",),
    "DeleteReplica": ("cp-1",),
    "RemoveMember": ("cp-1", 0xBEEF),
    "ReleaseHook": ("cp-1",),
    "AdoptReplicas": (("cp-1", "cp-2"),),
    "RemoveOrphan": (0xBEEF,),
    "Remediate": ("cp-1", 0),
    "RecordRemediation": (),
    "ForgetRemediation": (),
    "PrepareWorkload": (),
    "MoveCoreDNS": ("cp-1",),
    "AskExtension": ("cp-1",),
    "UpdateInPlace": ("cp-1",),
    "UpdateAddons": (),
    "RecordExpiries": (("cp-1",),),
    "DeleteAll": (("cp-1", "cp-2"),),
    "RemoveFinalizer": (),
}


@pytest.mark.parametrize("kind", get_args(steps.Step), ids=lambda kind: kind.__name__)
def test_every_step_is_an_instruction_that_names_what_it_touches(kind: Any) -> None:
    text = str(kind(*ARGUMENTS[kind.__name__]))
    assert "(" not in text
    assert ("cp-1" in text) == any("cp-1" in str(argument) for argument in ARGUMENTS[kind.__name__])
