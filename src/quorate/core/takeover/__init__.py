"""One provider of kubeadm control planes takes the other's place in a live management cluster: what is known, the steps there are, the rules, the next step."""
