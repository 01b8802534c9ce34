"""The Cluster API kinds that a control-plane provider writes or reads, in their v1beta2 shape: one module for each noun."""
