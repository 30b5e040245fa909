"""Threads, files, progress and arrays: what every room uses, and what knows nothing of similarity."""
