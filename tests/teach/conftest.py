"""The small galleries and models that searching is tested with."""

from tests.search.conftest import fitted, index

__all__ = ["fitted", "index"]
