"""Existing hosts over SSH, brought to what a manifest asks for."""
