"""Carries out the step that was decided, with a final check before each write that cannot be undone."""
