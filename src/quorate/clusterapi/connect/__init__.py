"""The ways out of the process: the caches of the management cluster, the connections to workload clusters, and what was written last."""
