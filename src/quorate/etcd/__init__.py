"""etcd as a control-plane controller needs it: list members and their health, hand leadership over, remove a member. It reads and writes no keys."""
