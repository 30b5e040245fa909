"""Where a pass runs. Every engine answers the same four questions about its rows; the solvers know no more."""

from likewise.engines.memory import MemoryEngine

__all__ = ["MemoryEngine"]
