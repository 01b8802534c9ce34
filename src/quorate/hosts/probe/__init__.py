"""What a host tells of itself: one script that changes nothing, its answer as facts of which each may be unknown, and what they say the host is."""
