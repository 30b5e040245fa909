"""Rows that live elsewhere: on disk, on a Dask cluster, on a torch device; and `open_rows`, the way in for all."""

from likewise.learn.engines.opening import Rows, open_rows

__all__ = ["Rows", "open_rows"]
