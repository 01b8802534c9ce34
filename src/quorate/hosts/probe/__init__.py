"""Probes a host: one script that changes nothing, its answer as facts that may each be unknown, and what these say the host is."""
