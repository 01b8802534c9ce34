"""Control planes of existing hosts: the same loop as for Machines, with hosts that have an identity and are not replaced."""
