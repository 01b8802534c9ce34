"""`python -m quorate`: the same as the `quorate` command."""

from __future__ import annotations

from quorate.cli.main import main

main()
