"""What is to be made, and the records of it that survive a crash. Pure."""
