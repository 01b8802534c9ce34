"""Everything that hosts need, made once and kept under `.cache/nodes`: what `make nodes` does."""

from __future__ import annotations

from quorate.local.progress import Progress
from tests.e2e.nodes.debian import build_debian
from tests.e2e.nodes.engine import Engine
from tests.e2e.nodes.images import build_images
from tests.e2e.nodes.machine_images import build_machine_images
from tests.e2e.nodes.packages import build_repositories
from tests.e2e.nodes.programs import build_programs
from tests.e2e.nodes.registry import build_registry


def build(engine: Engine, progress: Progress) -> None:
    """Build what is missing or out of date; the engine is started, and is left running. Raises MissingTool, BuildFailed."""
    build_programs(progress)
    with engine.exclusively():
        engine.start()
        build_debian(engine, progress)
        build_repositories(progress)
        build_registry(engine, progress)
        build_images(engine, progress)
        build_machine_images(engine, progress)
