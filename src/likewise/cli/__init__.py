"""The command line: one verb a module, each calling the public API only."""
