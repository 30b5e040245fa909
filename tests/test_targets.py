"""The former homes of names that moved still give them, with a warning."""

from __future__ import annotations

import pytest

import likewise.data
import likewise.tables
import likewise.targets


@pytest.mark.parametrize("name", ["Relevance", "SharedLabels"])
def test_targets_are_in_data(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"likewise.targets.{name} is now likewise.data.{name}"):
        assert getattr(likewise.targets, name) is getattr(likewise.data, name)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        likewise.targets.Nothing  # noqa: B018


def test_relevance_is_read_by_data() -> None:
    with pytest.warns(DeprecationWarning, match=r"likewise\.tables\.read_relevance is now likewise\.data"):
        assert likewise.tables.read_relevance is likewise.data.read_relevance
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        likewise.tables.nothing  # noqa: B018
