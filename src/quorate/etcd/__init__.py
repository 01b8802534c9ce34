"""etcd as a control plane's keeper needs it: who is a member, how each one is, hand leadership over, remove a member. Nothing reads or writes keys."""
