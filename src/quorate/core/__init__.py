"""The decision: pure functions on frozen values. No I/O, no clock, no randomness, no Kubernetes objects."""
