"""A small asynchronous Kubernetes client and controller runtime, with controller-runtime's nouns."""
