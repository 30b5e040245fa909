"""Choosing settings on held-out rows."""
