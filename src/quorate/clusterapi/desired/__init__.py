"""The objects to create, and the records of them that survive a crash. Pure."""
