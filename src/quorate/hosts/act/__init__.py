"""Carries out the step that was decided, on hosts, in the API and in etcd."""
