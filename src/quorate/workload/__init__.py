"""A workload cluster, watched and asked: its control-plane nodes, their static Pods, the etcd ring, and what is changed in it."""
