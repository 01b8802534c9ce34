"""The annotations of our own on Nodes."""

STATIC_WORKER = "quorate.dev/static-worker"
"""On the Node of every static worker: when the manifest no longer has the host, its Node is known to have been ours."""
CORDONED = "quorate.dev/cordoned"
"""On a Node that an upgrade of ours has cordoned, until it lets Pods return."""
