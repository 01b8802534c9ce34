"""One moment, cheap CAs, and the openssl program as a second proposal."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quorate.pki import KeyAlgorithm, KeyPair, generate_ca

OpenSSL = Callable[..., str]


@pytest.fixture(scope="session")
def noon() -> datetime:
    return datetime(2026, 1, 1, 12, 0, 0, 999_999, tzinfo=UTC)


@pytest.fixture(scope="session")
def ca(noon: datetime) -> KeyPair:
    return generate_ca(KeyAlgorithm.ECDSA_P256, now=noon)


@pytest.fixture(scope="session")
def other_ca(noon: datetime) -> KeyPair:
    return generate_ca(KeyAlgorithm.ECDSA_P256, now=noon, common_name="another")


@pytest.fixture
def openssl(tmp_path: Path) -> OpenSSL:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("the openssl program is not installed; it is the second proposal here")

    def run(*arguments: str, **files: bytes) -> str:
        """Run openssl in an empty folder that holds `files` (name to content, `_pem` standing for `.pem`) and answer what it prints."""
        for name, content in files.items():
            (tmp_path / name.replace("_pem", ".pem")).write_bytes(content)
        done = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, check=False, timeout=20)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run
