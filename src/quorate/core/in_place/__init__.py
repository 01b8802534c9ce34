"""Control planes of existing hosts, which are worked on in place: the same loop as for Machines, with hosts that have an identity and are not replaced."""
