"""The world of existing hosts: what kubeadm leaves on them, and operators who run `apply`."""
