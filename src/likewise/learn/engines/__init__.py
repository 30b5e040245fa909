"""Where rows live: in memory, on disk, on a Dask cluster, on a torch device; and `open_rows`, the way in."""

from likewise.learn.engines.opening import Rows, open_rows

__all__ = ["Rows", "open_rows"]
