"""Carrying out the one step that was decided, on hosts, in the API and in etcd."""
