"""The webhooks' certificates where the manager makes them itself (`--webhook-certificates=self-managed`): a CA in a Secret, a leaf, and who has to trust them.

`state` decides, `secret` and `trust` read and write, `keeper` has the loop. All replicas present what the Secret holds; the leader alone renews.
"""
