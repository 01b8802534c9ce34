"""Everything known of one control plane, gathered into one frozen value."""
