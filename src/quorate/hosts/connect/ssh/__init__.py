"""SSH to the hosts of a manifest: connections that are checked, kept and made again, scripts with deadlines, files, and tunnels."""
