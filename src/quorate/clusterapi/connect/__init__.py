"""Connections of the process: caches of the management cluster, connections to workload clusters, and its own last writes."""
