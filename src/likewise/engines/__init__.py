"""Where a pass runs. Every engine answers the same few questions about its rows; the solvers know no more."""

from likewise.engines.choosing import open_engine
from likewise.engines.contract import Engine
from likewise.engines.disk import DiskEngine
from likewise.engines.memory import MemoryEngine

__all__ = ["DiskEngine", "Engine", "MemoryEngine", "open_engine"]
