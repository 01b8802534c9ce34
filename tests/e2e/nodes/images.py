"""The two images of the suite: a bare host, and the services that hosts reach. Both hold what identifies this cache: its CA, signing key and SSH key."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from quorate.local.progress import Progress
from quorate.pki.issue import generate_ca, issue_server
from quorate.pki.keys import KeyAlgorithm
from tests.e2e.nodes.commands import BUILD_TIMEOUT, require, run
from tests.e2e.nodes.debian import base_image
from tests.e2e.nodes.engine import CACHE, FILES, Engine
from tests.e2e.nodes.packages import KEYRING, SERVED
from tests.e2e.nodes.stamps import fingerprint, making

TRUST = CACHE / "trust"
"""The CA that hosts trust, the services' certificate, and the key pair of SSH."""
SSH_KEY = TRUST / "id_ed25519"
COPIED: Mapping[str, Path] = MappingProxyType(
    {
        "ca.crt": TRUST / "ca.crt",
        KEYRING.name: KEYRING,
        "server.crt": TRUST / "server.crt",
        "server.key": TRUST / "server.key",
        "authorized_keys": SSH_KEY.with_suffix(".pub"),
    }
)
"""What the images copy from the folder `trust` of their build."""
SERVED_NAMES = (*SERVED, "registry.k8s.io")
"""The names that the services answer to inside the network of a run."""
_VALIDITY = timedelta(days=3650)


def host_image() -> str:
    """The name of the image of a bare host, which says what it is made from."""
    return f"quorate-e2e/host:{fingerprint(base_image(), FILES / 'host', TRUST / 'ca.crt', KEYRING, SSH_KEY.with_suffix('.pub'))}"


def services_image() -> str:
    """The name of the image of the services."""
    return f"quorate-e2e/services:{fingerprint(base_image(), FILES / 'services', TRUST / 'server.crt')}"


def build_images(engine: Engine, progress: Progress) -> None:
    """Build the images that are missing. Raises MissingTool, BuildFailed."""
    with making(TRUST, *SERVED_NAMES) as folder:
        if folder is not None:
            _make_trust(folder)
    for name, folder_name in ((host_image(), "host"), (services_image(), "services")):
        if not engine.docker("image", "ls", "-q", name).strip():
            with progress.step(f"image of {folder_name}"):
                _build(engine, name, FILES / folder_name)


def _build(engine: Engine, name: str, source: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        context = Path(work, "context")
        shutil.copytree(source, context)
        (context / "trust").mkdir()
        for target, path in COPIED.items():
            shutil.copy(path, context / "trust" / target)
        engine.docker(
            "build", "--quiet", "--network=host", f"--build-arg=BASE={base_image()}", f"--tag={name}", context, timeout=BUILD_TIMEOUT
        )


def _make_trust(folder: Path) -> None:
    now = datetime.now(UTC)
    ca = generate_ca(KeyAlgorithm.ECDSA_P256, now=now, common_name="quorate end-to-end tests")
    server = issue_server(
        ca,
        common_name=SERVED_NAMES[0],
        dns_names=SERVED_NAMES,
        algorithm=KeyAlgorithm.ECDSA_P256,
        not_before=now - timedelta(days=1),
        not_after=now + _VALIDITY,
    )
    (folder / "ca.crt").write_bytes(ca.certificate)
    (folder / "server.crt").write_bytes(server.certificate)
    (folder / "server.key").write_bytes(server.key)
    (folder / "server.key").chmod(0o600)
    run(
        [require("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-C", "quorate-e2e", "-f", folder / SSH_KEY.name],
        making="SSH key",
    )
