"""Threads, files, progress and arrays: helpers that know nothing of similarity."""
