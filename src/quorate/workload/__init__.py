"""Reads and changes a workload cluster: its control-plane nodes, their static Pods, the etcd ring, and add-ons."""
