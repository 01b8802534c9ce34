"""A change-over in a live management cluster: what is installed, what is written down, observe and act, and the loop; the rules are in `quorate.core.takeover`."""
