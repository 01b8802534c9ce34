"""A deterministic world for the first door: the real controllers on APIs, etcd rings and machines in memory, in virtual time. A seed replays."""
