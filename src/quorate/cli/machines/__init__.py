"""Commands for control planes of Machines, and how these are shown."""
