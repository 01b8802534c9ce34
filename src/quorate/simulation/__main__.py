"""`python -m quorate.simulation --seed N`: one life from its seed, without the rest of the command line."""

from __future__ import annotations

import argparse
import sys
import time

from quorate.simulation.faults import FAULTS
from quorate.simulation.life import live


def main() -> int:
    """Live the seed, and say how fast; 1 where something was violated."""
    parser = argparse.ArgumentParser(prog="python -m quorate.simulation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calm", action="store_true", help="users, but no faults")
    arguments = parser.parse_args()
    before = time.process_time()
    outcome = live(arguments.seed, faults=() if arguments.calm else FAULTS)
    cpu = time.process_time() - before
    sys.stdout.write(
        f"seed {outcome.seed}: {outcome.seconds:.0f} s simulated in {cpu:.2f} s of CPU, {outcome.machines} machines made, history {outcome.digest}\n"
    )
    for violation in outcome.violations:
        sys.stdout.write(f"{violation}\n")
    return int(bool(outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
