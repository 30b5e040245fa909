"""Threads, files, progress, randomness and arrays: helpers that know nothing of similarity."""
