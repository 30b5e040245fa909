"""Memory limits, and their division into blocks of rows and the projected gallery."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.errors import LikewiseError

__all__ = ["DEFAULT_LIMIT", "MemoryBudget", "in_bytes"]

DEFAULT_LIMIT = 1_000_000_000
_LARGEST_BLOCK = 32 << 20  # bytes as read; larger blocks are no faster
_SMALLEST_ROWS = 64
_COPIES = 4  # of a block: two buffers, the rows sorted by label, and the result of a task
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def in_bytes(limit: Any) -> int:
    """Bytes from a number, or from a size such as "1GB" or "512 MiB"."""
    if isinstance(limit, int | np.integer) and not isinstance(limit, bool) and limit > 0:
        return int(limit)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(limit).lower())
    if match is None or isinstance(limit, bool) or float(match[1]) <= 0:
        raise LikewiseError(f"memory_limit={limit!r}: expected bytes as a positive number, or words such as '1GB'")
    return int(float(match[1]) * _UNITS[match[2] or ""])


@dataclass(frozen=True)
class MemoryBudget:
    """Rows to read at a time, and bytes above which the projected gallery goes to a file."""

    block_rows: int
    gallery_bytes: int

    @classmethod
    def of(cls, limit: Any, d: int, row_bytes: int, n: int) -> MemoryBudget:
        """Divide `limit` for n rows of `row_bytes` bytes and d columns.

        What every fit needs comes first: the d x d Gram matrix with its eigenvectors and their workspace, and some
        numbers per row for labels and order. An eighth goes to a block, up to 32 MB; half of the rest to the gallery.
        """
        total = in_bytes(DEFAULT_LIMIT if limit is None else limit)
        fixed = 6 * 8 * d * d + 40 * n
        row = _COPIES * max(row_bytes, 4 * d)
        if total - fixed < _SMALLEST_ROWS * row:
            needed = (fixed + _SMALLEST_ROWS * row) * 1.1
            raise LikewiseError(
                f"memory_limit={limit!r} is too little for {n} rows of {d}: their labels, a {d} x {d} matrix and its "
                f"eigenvectors need about {needed / 1e6:.0f} MB"
            )
        rows = min(_LARGEST_BLOCK // row_bytes, (total - fixed) // (2 * row), n)
        rows = max(rows, _SMALLEST_ROWS)
        return cls(int(rows), int(max(total - fixed - rows * row, 0) // 2))
