"""What hosts are given, from a manifest: files, packages, kubeadm's configuration. Pure."""
