"""The paper: its variants of SLR by name, and its experiments."""

from likewise.paper.variants import variant

__all__ = ["variant"]
