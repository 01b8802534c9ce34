"""Control planes of Cluster API Machines: what is known of one, the steps there are, the rules, and the one next step."""
