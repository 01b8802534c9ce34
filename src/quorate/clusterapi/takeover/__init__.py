"""A change-over in a live management cluster: what is installed, what is written down, observe, act, and the loop. Its rules: `quorate.core.takeover`."""
