"""The world of control planes of Machines: the real controllers on APIs, etcd rings and machines in memory."""
