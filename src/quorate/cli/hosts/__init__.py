"""Commands for existing hosts, and how a run on them is shown."""
