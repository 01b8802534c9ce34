"""A deterministic world for the second door: existing hosts, what kubeadm leaves on them, and operators who run `apply`, in virtual time. A seed replays."""
