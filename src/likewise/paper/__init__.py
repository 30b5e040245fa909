"""The paper: its variants of SLR by name, and its experiments."""

from likewise.paper.methods import variant

__all__ = ["variant"]
