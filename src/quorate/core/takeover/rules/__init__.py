"""The rules of a change-over, each a pure function of what was observed and the time."""
