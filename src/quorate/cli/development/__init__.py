"""Commands that only quorate's source has: they need the simulation or the local management cluster, which nobody installs. Left out of the wheel."""
