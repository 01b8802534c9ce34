"""The command line: one module a command, and the views that they share. Nothing is imported before it is needed."""
