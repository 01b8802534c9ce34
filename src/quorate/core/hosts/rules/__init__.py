"""The rules for control planes of existing hosts: one family a module."""
