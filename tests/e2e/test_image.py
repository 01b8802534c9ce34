"""The container image as operators run it: loaded from its archive by Docker, with a root file system that is read-only and no rights, on a real API server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path

import pytest
import pytest_asyncio

from quorate.clusterapi.types.names import DEFAULT_NAMESPACE
from quorate.local.errors import LocalError
from quorate.local.programs import PROGRAMS_FOLDER
from tests.e2e.conftest import Measured
from tests.e2e.nodes.debian import architecture
from tests.e2e.nodes.engine import Engine
from tests.integration.installed import Server, as_list, server
from tools.release import clusterctl, oci, rootfs, wheels
from tools.release.installation import Certificates
from tools.release.product import Product

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

PRODUCT = Product("0.1.0", "c0ffee", 1_700_000_000, "localhost/quorate-e2e")
MOST_BYTES, MOST_SECONDS = 120_000_000, 1.5
_RESTRICTED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=host")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's file system."""
    folder = tmp_path_factory.mktemp("image")
    rootfs.make(wheels.build(folder / "dist", PRODUCT.epoch), folder / "root", architecture())
    return folder / "root"


@pytest.fixture(scope="module")
def engine(root: Path) -> Iterator[Engine]:
    """A Docker daemon that has loaded the archive."""
    engine = Engine()
    archive = root.with_name("image.oci.tar")
    oci.write(archive, root, PRODUCT, architecture(), upper=rootfs.APPLICATION)
    try:
        with engine.exclusively():
            engine.start()
        assert PRODUCT.reference in engine.docker("load", "-i", archive, timeout=120)
    except LocalError as error:
        pytest.fail(str(error))
    yield engine
    engine.docker("image", "rm", "--force", PRODUCT.reference)
    engine.stop_when_idle()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def management(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """An API server with Cluster API's kinds and quorate's components; nobody answers for them."""
    async with server(tmp_path_factory.mktemp("management") / "server") as started:
        items = [
            item for name in ("core.yaml", "bootstrap-kubeadm.yaml") for item in clusterctl.objects((PROGRAMS_FOLDER / name).read_text())
        ]
        items += clusterctl.with_defaults(PRODUCT, "quorate", Certificates.SELF_MANAGED)
        applied = [item for item in items if not item["apiVersion"].startswith("cert-manager.io/")]
        await started.run("kubectl", "apply", "--server-side", "-f", "-", given=as_list(applied))
        yield started


def test_it_is_small_and_has_neither_shell_nor_package_manager(root: Path, measured: Measured) -> None:
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_blocks * 512 for path in files)
    measured(f"image: {size / 1e6:.0f} MB unpacked in {len(files)} files")
    assert size < MOST_BYTES
    assert {path.name for path in files} & {"sh", "bash", "dash", "busybox", "apt", "dpkg", "pip", "uv"} == set()
    assert list(root.rglob("pip")) == []
    uncompiled = [path for path in root.rglob("*.py") if not (path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc").exists()]
    assert uncompiled == []


def test_it_runs_as_nobody_in_particular_with_a_root_that_is_read_only(engine: Engine) -> None:
    assert engine.docker("run", "--rm", *_RESTRICTED, PRODUCT.reference, "--version") == "quorate 0.1.0\n"
    tried = "import os; print(os.getuid(), os.getgid(), os.access('/', os.W_OK), os.access('/tmp', os.W_OK))"
    said = engine.docker("run", "--rm", *_RESTRICTED, "--entrypoint=/usr/bin/python3.11", PRODUCT.reference, "-I", "-c", tried)
    assert said == "65532 65532 False False\n"


async def test_the_manager_watches_within_a_second_and_a_half(
    engine: Engine, management: Server, tmp_path: Path, measured: Measured
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copy(management.folder.kubeconfig, kubeconfig)
    kubeconfig.chmod(0o644)
    health, webhook, diagnostics = (management.free.pop() for _ in range(3))
    flags = (f"--health-addr=127.0.0.1:{health}", f"--webhook-port={webhook}", f"--diagnostics-address=127.0.0.1:{diagnostics}")
    container = engine.docker(
        "run",
        "--detach",
        *_RESTRICTED,
        f"--volume={kubeconfig}:/kubeconfig:ro",
        f"--env=POD_NAMESPACE={DEFAULT_NAMESPACE}",
        "--entrypoint=/manager",
        PRODUCT.reference,
        "--kubeconfig=/kubeconfig",
        "--leader-elect=true",
        "--webhook-certificates=self-managed",
        *flags,
    ).strip()
    try:
        await_ready(f"http://127.0.0.1:{health}/readyz", engine, container)
        started = datetime.fromisoformat(engine.docker("inspect", "--format={{.State.StartedAt}}", container).strip()[:26] + "+00:00")
        seconds = (first_watch(management.folder.audit_log, after=started) - started).total_seconds()
        measured(f"image: first watch {seconds:.2f} s after its start")
        assert seconds < MOST_SECONDS
        engine.docker("stop", "--time=30", container)
        assert engine.docker("inspect", "--format={{.State.ExitCode}}", container).strip() == "0"
    finally:
        engine.docker("rm", "--force", container)


def await_ready(url: str, engine: Engine, container: str) -> None:
    ask = f"import urllib.request; urllib.request.urlopen('{url}', timeout=2)"
    for _ in range(120):
        if subprocess.run([sys.executable, "-c", ask], capture_output=True, timeout=20, check=False).returncode == 0:
            return
        time.sleep(0.5)
    pytest.fail(engine.docker("logs", container)[-3000:])


def first_watch(audit: Path, after: datetime) -> datetime:
    """When the API server received the first request of a watch from the manager."""
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    moments = [
        datetime.fromisoformat(event["requestReceivedTimestamp"])
        for event in events
        if event["verb"] == "watch" and event.get("userAgent", "").startswith("quorate/")
    ]
    return min(moment for moment in moments if moment >= after)
