"""Deterministic worlds in virtual time, in which the real controllers and sessions run. A seed replays."""
