"""The images' files agree with the code that builds them: a build takes 25 minutes before it reads them."""

from __future__ import annotations

import re

from tests.e2e.nodes.engine import FILES
from tests.e2e.nodes.images import COPIED


def test_the_images_copy_what_the_build_puts_there() -> None:
    copies = [line for file in FILES.glob("*/Dockerfile") for line in file.read_text().splitlines() if line.startswith("COPY")]
    assert set(re.findall(r"trust/(\S+)", " ".join(copies))) == set(COPIED)
