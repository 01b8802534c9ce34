"""Carrying out the one step that was decided, with a last look before whatever nobody can take back."""
