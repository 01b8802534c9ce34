"""How API servers store Secrets, as hosts and the API tell it, and what is decided and foreseen from that."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from quorate.core.checks import Check
from quorate.core.documents import load
from quorate.core.health import Unknown
from quorate.core.hosts.decide import decide
from quorate.core.hosts.encryption import IDENTITY, NEW, SECRETS, Configuration
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.encryption import STAYS_READABLE
from quorate.core.hosts.state import Cluster, RunOptions
from quorate.core.hosts.steps import ChangeEncryption
from quorate.hosts.render.host_files import yaml_documents
from quorate.hosts.render.provider_files import PATHS, RECORD, generated, read, written
from tests.hosts.observe.world import CONFIG_MAPS, NAMES, World, put_configurations, stand, three, write_static_pods
from tests.hosts.probe.machine import NOW

ON: dict[str, Any] = {
    "features": {"metricsServer": {"enable": False}, "nodeLocalDNS": {"deploy": False}, "encryptionProviders": {"enable": True}}
}
GENERATED, CUSTOM = PATHS
KEY, ENTRY = generated(bytes)
OTHER, OTHER_ENTRY = generated(lambda count: b"\1" * count)


def with_custom(*providers: dict[str, Any], resources: tuple[str, ...] = (SECRETS,)) -> dict[str, Any]:
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": list(resources), "providers": list(providers)}],
    }
    own = {"enable": True, "customEncryptionConfiguration": yaml_documents(document).decode()}
    return {"features": {**ON["features"], "encryptionProviders": own}}


def file(*providers: str) -> str:
    return written(Configuration.made({SECRETS: providers}), {KEY: ENTRY, OTHER: OTHER_ENTRY}).reveal()


def encrypted(folder: Path, wish: dict[str, Any], *, providers: tuple[str, ...] = (KEY, IDENTITY)) -> World:
    """Three API servers that store Secrets with one key, all of them, and a manifest that options for something."""
    world = stand(folder, **ON)
    for name in NAMES:
        world.machines[name].folder.file(GENERATED.lstrip("/"), file(*providers))
    recorded(world, providers[0])
    world.manifest = three(**wish)
    return world


def recorded(world: World, provider: str) -> None:
    world.api_objects.put(f"{CONFIG_MAPS}/{RECORD}", {"data": {SECRETS: provider}})


def steps(cluster: Cluster) -> list[str]:
    return [str(each.step) for each in forecast(cluster, NOW).steps]


def stages(cluster: Cluster) -> list[tuple[str, int]]:
    """What happens to how many hosts, one after the other; who leads etcd comes last."""
    words = (re.sub(r"^have the API server of cp-[123] ", "", step) for step in steps(cluster))
    return [(what, len(list(group))) for what, group in groupby(words)]


def refusal(cluster: Cluster) -> Check:
    found = decide(cluster, NOW)
    assert found.step is None
    return found.refusals[0]


def rotating(cluster: Cluster) -> Cluster:
    return replace(cluster, options=RunOptions(rotate_encryption_key=True))


async def test_what_is_stored_as_the_manifest_says_is_left_alone(tmp_path: Path) -> None:
    assert steps(await encrypted(tmp_path / "on", ON).cluster()) == []
    assert steps(await stand(tmp_path / "off").cluster()) == []


async def test_switched_off_identity_comes_first_and_the_key_goes_when_nothing_is_stored_with_it(tmp_path: Path) -> None:
    cluster = await encrypted(tmp_path, {}).cluster()
    assert [host.drift for host in cluster.hosts] == [()] * 3, "no flag rolls off with the settings"
    assert cluster.configuration_drift == ()
    assert stages(cluster) == [
        ("store Secrets unencrypted, and read encrypted ones", 3),
        ("write every Secret anew, unencrypted", 1),
        ("store Secrets unencrypted", 1),
        ("update kubeadm's configuration in the cluster", 1),
        ("store Secrets unencrypted", 2),
    ]


async def test_switched_on_every_api_server_reads_the_new_key_before_one_writes_with_it(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = three(**ON)
    assert stages(await world.cluster()) == [
        ("store Secrets unencrypted, and read encrypted ones", 3),
        ("update kubeadm's configuration in the cluster", 1),
        ("store Secrets encrypted", 3),
        ("write every Secret anew, encrypted", 1),
    ]


async def test_switched_on_again_the_key_that_is_there_is_used(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = three(**ON)
    world.machines["cp-2"].folder.file(GENERATED.lstrip("/"), file(KEY, IDENTITY))
    step = decide(await world.cluster(), NOW).step
    assert step == ChangeEncryption("cp-2", Configuration.made({SECRETS: (IDENTITY, KEY)}))


async def test_a_rotation_is_foreseen_step_by_step_and_done_once(tmp_path: Path) -> None:
    cluster = rotating(await encrypted(tmp_path, ON).cluster())
    assert decide(cluster, NOW).step == ChangeEncryption("cp-2", Configuration.made({SECRETS: (KEY, IDENTITY, NEW)}))
    assert stages(cluster) == [
        ("store Secrets encrypted and read those of a newer key", 3),
        ("store Secrets encrypted and read those of an older key", 3),
        ("write every Secret anew, encrypted", 1),
        ("store Secrets encrypted", 3),
    ]


async def test_an_interrupted_rotation_goes_on_with_its_new_key_without_being_asked_again(tmp_path: Path) -> None:
    world = encrypted(tmp_path, ON)
    world.machines["cp-1"].folder.file(GENERATED.lstrip("/"), file(KEY, IDENTITY, OTHER))
    assert decide(await world.cluster(), NOW).step == ChangeEncryption("cp-2", Configuration.made({SECRETS: (KEY, IDENTITY, OTHER)}))
    for name in NAMES:
        world.machines[name].folder.file(GENERATED.lstrip("/"), file(KEY, IDENTITY, OTHER))
    assert decide(await world.cluster(), NOW).step == ChangeEncryption("cp-2", Configuration.made({SECRETS: (OTHER, KEY, IDENTITY)}))


@pytest.mark.parametrize("flag", ["--etcd-prefix=/k8s", "--etcd-servers-overrides=/secrets#https://192.0.2.9:2379"])
async def test_what_a_host_alone_says_of_where_everything_is_stored_counts(tmp_path: Path, flag: str) -> None:
    world = encrypted(tmp_path, ON)
    for number, name in enumerate(NAMES[:2]):
        write_static_pods(world.machines[name], world.manifest, founder=number == 0, extra={"kube-apiserver": [flag]})
    assert steps(await world.cluster()) == []
    check = refusal(rotating(await world.cluster()))
    assert (
        "cp-1 has everything below /k8s in etcd, and cp-3 below /registry" if "prefix" in flag else "in other servers"
    ) in check.evidence
    if "prefix" in flag:
        write_static_pods(world.machines["cp-3"], world.manifest, founder=False, extra={"kube-apiserver": [flag]})
        assert stages(rotating(await world.cluster()))


async def test_what_is_not_recorded_as_written_is_written_anew(tmp_path: Path) -> None:
    world = encrypted(tmp_path, ON)
    recorded(world, IDENTITY)
    assert steps(await world.cluster()) == ["write every Secret anew, encrypted"]


PS = """\
case "$*" in
    *"-p 1"*) echo '        11' ;;
    *) printf '%s\\n' '        11     100' '4026532777   86400' ;;
esac"""
"""The host's own API server runs for 100 s, and one of another cluster, in a Pod, for a day."""


async def test_an_api_server_that_was_started_before_its_file_came_is_restarted_first(tmp_path: Path) -> None:
    world = encrypted(tmp_path, ON)
    world.machines["cp-2"].folder.program("ps", PS)
    for program in ("sort", "tail"):
        link = world.machines["cp-2"].folder.programs / program
        link.unlink(missing_ok=True)
        link.symlink_to(f"/usr/bin/{program}")
    root = world.machines["cp-2"].folder.root
    for path in (GENERATED, "/etc/kubernetes/manifests/kube-apiserver.yaml"):
        os.utime(root / path.lstrip("/"), (NOW.timestamp() - 100,) * 2)
    assert steps(await world.cluster()) == []
    os.utime(root / GENERATED.lstrip("/"), (NOW.timestamp() - 99,) * 2)
    assert steps(await world.cluster()) == ["have the API server of cp-2 store Secrets encrypted"]


async def test_a_key_file_that_is_missing_is_named_and_nobody_is_given_another(tmp_path: Path) -> None:
    world = encrypted(tmp_path, ON)
    (world.machines["cp-2"].folder.root / GENERATED.lstrip("/")).unlink()
    cluster = await world.cluster()
    assert isinstance(cluster.host("cp-2").encryption, Unknown)
    check = refusal(cluster)
    assert "cp-2: its API server reads /etc/kubernetes/encryption-providers/encryption-providers.yaml, which is not there" in check.evidence


async def test_hosts_whose_keys_differ_are_named(tmp_path: Path) -> None:
    world = encrypted(tmp_path, ON)
    world.machines["cp-3"].folder.file(GENERATED.lstrip("/"), file(OTHER, IDENTITY))
    assert refusal(await world.cluster()).evidence == "cp-1 stores secrets with key secretbox:quorate-00000000, which cp-3 does not have"


async def test_two_keys_of_one_name_are_refused(tmp_path: Path) -> None:
    world = encrypted(tmp_path, ON)
    _, entry = generated(lambda count: bytes(count) if count < 32 else b"\1" * count)  # the name of KEY, and another secret
    content = written(Configuration.made({SECRETS: (KEY, IDENTITY, "more")}), {KEY: ENTRY, "more": entry})
    world.machines["cp-3"].folder.file(GENERATED.lstrip("/"), content.reveal())
    assert refusal(await world.cluster()).evidence == "there are two different keys called secretbox:quorate-00000000"


async def test_a_file_of_its_owner_is_left_to_its_owner(tmp_path: Path) -> None:
    own = {"controlPlaneComponents": {"apiServer": {"flags": {"encryption-provider-config": "/etc/kubernetes/pki/providers.yaml"}}}}
    assert steps(await stand(tmp_path / "own", **own).cluster()) == []
    world = stand(tmp_path / "left", **own)
    world.manifest = three()
    assert (
        "its API server reads /etc/kubernetes/pki/providers.yaml, which the manifest does not name"
        in refusal(await world.cluster()).evidence
    )


async def test_a_custom_configuration_goes_through_the_same_stages_and_ends_in_its_own_words(tmp_path: Path) -> None:
    cluster = await encrypted(tmp_path, with_custom(OTHER_ENTRY, {"identity": {}})).cluster()  # type: ignore[arg-type]
    assert decide(cluster, NOW).step == ChangeEncryption("cp-2", Configuration.made({SECRETS: (KEY, IDENTITY, OTHER)}))
    assert stages(cluster)[-2:] == [("write every Secret anew, encrypted", 1), ("store Secrets encrypted", 3)]


async def test_what_would_leave_other_resources_unreadable_is_refused_by_name(tmp_path: Path) -> None:
    wish = with_custom(ENTRY, resources=(SECRETS, "configmaps"))  # type: ignore[arg-type]
    check = refusal(await encrypted(tmp_path, wish).cluster())
    assert check.evidence == "configmaps may be stored as plain text, which could then no longer be read"


@pytest.mark.parametrize("wish", [{}, with_custom(ENTRY, {"identity": {}})], ids=["off", "custom"])  # type: ignore[arg-type]
async def test_only_a_key_of_quorates_making_is_rotated(tmp_path: Path, wish: dict[str, Any]) -> None:
    world = stand(tmp_path, **wish)
    for name in NAMES if wish else ():
        world.machines[name].folder.file(CUSTOM.lstrip("/"), wish["features"]["encryptionProviders"]["customEncryptionConfiguration"])
    recorded(world, KEY)
    assert steps(await world.cluster()) == []
    assert "--rotate-encryption-key" in refusal(rotating(await world.cluster())).remedy


async def test_what_kubeadm_tells_those_who_join_follows_the_api_servers(tmp_path: Path) -> None:
    world = encrypted(tmp_path, {})
    write_static_pods(world.machines["cp-1"], three(), founder=True)
    cluster = await world.cluster()
    assert cluster.configuration_drift, "one has no file any more: who joins needs none"
    world.manifest = three()
    put_configurations(world)
    assert (await world.cluster()).configuration_drift == ()


def test_a_file_is_read_and_written_without_a_loss() -> None:
    kms = {"kms": {"apiVersion": "v2", "name": "vault", "endpoint": "unix:///run/kms.sock", "timeout": "3s"}}
    both = {"secretbox": {"keys": [*ENTRY["secretbox"]["keys"], *OTHER_ENTRY["secretbox"]["keys"]]}}
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [
            {"resources": ["configmaps", "secrets"], "providers": [both, kms, {"identity": {}}]},
            {"resources": ["*.apps"], "providers": [{"identity": {}}, kms]},
            {"resources": ["*.*"], "providers": [{"identity": {}}]},
        ],
    }
    found = read(yaml_documents(document))
    vault = found.configuration.secrets[2]
    assert vault.startswith("kms/v2:vault:")
    assert found.configuration.secrets == (KEY, OTHER, vault, IDENTITY)
    assert found.configuration.of("deployments.apps") == (IDENTITY, vault)
    assert load(written(found.configuration, found.entries).reveal()) == document
    assert ENTRY["secretbox"]["keys"][0]["secret"] not in repr(found)


def _aescbc(byte: str) -> dict[str, Any]:
    return {"aescbc": {"keys": [{"name": "key1", "secret": base64.b64encode(32 * byte.encode()).decode()}]}}


def _kms(socket: str) -> dict[str, Any]:
    return {"kms": {"apiVersion": "v2", "name": "vault", "endpoint": f"unix:///run/{socket}"}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (_aescbc("a"), _aescbc("b"), "two different keys called aescbc:key1"),
        (_kms("a"), _kms("b"), "two different keys called kms/v2:vault"),
    ],
    ids=["secret", "plugin"],
)
async def test_a_key_that_was_exchanged_under_its_name_is_refused_before_a_host_gets_both(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    """The secret of a key in customEncryptionConfiguration, or the plugin that keeps it, is another, and its name is not. As it was all is well."""
    was, wanted = (with_custom(each, {"identity": {}}) for each in (before, after))
    world = stand(tmp_path, **was)
    content = was["features"]["encryptionProviders"]["customEncryptionConfiguration"]
    for name in NAMES:
        world.machines[name].folder.file(CUSTOM.lstrip("/"), content)
    recorded(world, read(content.encode()).configuration.secrets[0])
    world.manifest = three(**wanted)
    decision = decide(await world.cluster(), NOW)
    assert decision.step is None
    assert said in next(check.evidence for check in decision.refusals if check.name == STAYS_READABLE)
    world.manifest = three(**was)
    assert decide(await world.cluster(), NOW).refusals == ()
