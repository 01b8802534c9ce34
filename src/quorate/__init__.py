"""Kubernetes control planes that keep their quorum."""
