"""What both worlds stand on: time, chance, an API server with its watches, the way to it, and a ring of etcd members."""
