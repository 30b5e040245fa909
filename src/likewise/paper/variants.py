"""The variants of SLR by their names in the paper."""

from __future__ import annotations

import re
from typing import Any

from likewise.errors import LikewiseError
from likewise.slr import SLR

__all__ = ["variant"]

_PLAIN: dict[str, dict[str, Any]] = {
    "SLR": {},
    "SLR-Fixed": {"adaptive": False},
    "SLR-Whole": {"rank": None, "adaptive": False},
}
_COMPRESS = {"G": "gaussian", "C": "sample"}


def variant(name: str, **parameters: Any) -> SLR:
    """An unfitted `SLR` for a name of the paper: SLR, SLR-Fixed, SLR-Whole, SLR-G-m or SLR-C-m.

    m is a number such as 2000 or 20k. As in the paper: no ridge, all T iterations, its starts; `parameters` override.

    >>> variant("SLR-C-20k").compress_size
    20000
    """
    settings = {"alpha": 0.0, "tol": 0.0, "init": "paper"}
    return SLR(**{**settings, **_named(name), **parameters})


def _named(name: str) -> dict[str, Any]:
    if name in _PLAIN:
        return _PLAIN[name]
    match = re.fullmatch(r"SLR-([GC])-(\d+)(k?)", name)
    if match is None or int(match[2]) == 0:
        raise LikewiseError(
            f"name={name!r} is not a variant of the paper: expected {', '.join(_PLAIN)}, SLR-G-m or SLR-C-m"
        )
    return {"compress": _COMPRESS[match[1]], "compress_size": int(match[2]) * (1000 if match[3] else 1)}
