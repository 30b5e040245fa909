"""What every model inherits: rows opened, and parameters that moved."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from likewise import SLR, SimilarityModel, open_rows
from likewise.base import flat_parameters, moved_parameters
from likewise.errors import LikewiseError
from tests.planted import planted

X, Y = planted(60, 5, 3)


class Grouped(SimilarityModel):
    """A model two of whose parameters moved, one into each dict."""

    @moved_parameters(rows=("memory_limit",), fixed=("ridge",))
    def __init__(self, a: int = 1, *, rows: dict[str, Any] | None = None, fixed: dict[str, Any] | None = None) -> None:
        self.a = a
        self.rows = rows
        self.fixed = fixed


def test_old_keywords_become_entries_of_the_dict_with_a_warning():
    with pytest.warns(FutureWarning, match=r"ridge=0.5 of Grouped moved: pass fixed=\{'ridge': 0.5\}"):
        model = Grouped(3, ridge=0.5, fixed={"other": 1})
    assert model.get_params() == {"a": 3, "rows": None, "fixed": {"other": 1, "ridge": 0.5}}
    assert clone(model).get_params() == model.get_params()


def test_old_keywords_that_are_none_are_dropped_silently():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Grouped(memory_limit=None, ridge=None).get_params() == Grouped().get_params()


def test_the_warning_points_at_the_caller():
    with pytest.warns(FutureWarning) as caught:
        Grouped(ridge=1.0)
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning) as caught:
        Grouped().set_params(ridge=1.0)
    assert caught[0].filename == __file__


def test_set_params_takes_old_keywords_and_none_takes_them_back():
    model = Grouped(rows={"device": "cpu"})
    with pytest.warns(FutureWarning, match="memory_limit='1GB' of Grouped moved"):
        model.set_params(memory_limit="1GB", a=2)
    assert model.get_params() == {"a": 2, "rows": {"device": "cpu", "memory_limit": "1GB"}, "fixed": None}
    assert model.set_params(memory_limit=None).rows == {"device": "cpu"}
    assert model.set_params(rows={"memory_limit": 7}).set_params(memory_limit=None).rows is None
    pipeline = make_pipeline(Normalizer(), Grouped())
    with pytest.warns(FutureWarning):
        pipeline.set_params(grouped__ridge=2.0)
    assert pipeline[-1].fixed == {"ridge": 2.0}


def test_an_unknown_keyword_is_still_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        Grouped(nothing=1)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        Grouped().set_params(nothing=1)


def test_flat_parameters_have_the_names_of_before():
    model = Grouped(rows={"memory_limit": "1GB"})
    assert flat_parameters(model) == {"a": 1, "memory_limit": "1GB", "ridge": None}


@pytest.mark.parametrize("old", [{"memory_limit": "2GB"}, {"device": "cpu"}, {"tile_dtype": "bfloat16"}], ids=str)
def test_slr_takes_its_old_keywords(old):
    with pytest.warns(FutureWarning, match="of SLR moved"):
        assert SLR(**old).rows == old


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"memory": "1GB"}, "rows has the unknown option 'memory': expected memory_limit, device or tile_dtype"),
        ({"memory_limit": "much"}, "memory_limit='much': expected bytes"),
        ({"device": 3.5}, "device=3.5: expected a torch device such as 'cuda', or None"),
        ({"tile_dtype": "float8"}, "tile_dtype='float8': expected 'bfloat16', or None for the precision of X"),
        ("1GB", "The 'rows' parameter of SLR must be an instance of 'dict' or None"),
    ],
    ids=str,
)
def test_options_of_rows_are_checked_in_words(rows, message):
    for y in (Y, np.where(Y == 2, -1, Y)):
        with pytest.raises(ValueError, match=message):
            SLR(rank=2, rows=rows).fit(X, y)


def test_rows_may_be_opened_before_the_fit(tmp_path: Path):
    np.save(tmp_path / "x.npy", X)
    expected = SLR(rank=2).fit(X, Y)
    for rows in (open_rows(X, Y), open_rows(tmp_path / "x.npy", Y)):
        model = SLR(rank=2).fit(rows)
        np.testing.assert_allclose(model.similarity(X), expected.similarity(X), atol=1e-9)
        np.testing.assert_array_equal(model.classes_, expected.classes_)
        assert (model.n_samples_, model.n_features_in_) == (60, 5)


def test_names_of_columns_come_with_the_rows():
    table = pd.DataFrame(X, columns=list("abcde"))
    model = SLR(rank=2).fit(open_rows(table, Y))
    assert list(model.feature_names_in_) == list("abcde")
    assert not hasattr(model.fit(open_rows(X, Y)), "feature_names_in_")


def test_a_weighted_fit_of_opened_rows_is_refused_nothing():
    weights = np.random.default_rng(0).integers(0, 3, 60)
    model = SLR(rank=2).fit(open_rows(X, Y, weights))
    np.testing.assert_allclose(model.similarity(X), SLR(rank=2).fit(X, Y, weights).similarity(X), atol=1e-12)


def test_labels_or_weights_beside_opened_rows_are_refused():
    with pytest.raises(LikewiseError, match="X is opened already, with its labels: leave y and sample_weight at None"):
        SLR(rank=2).fit(open_rows(X, Y), Y)
