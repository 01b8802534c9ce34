"""Connections to hosts: SSH to each, and through any of them to the API servers and the etcd members."""
