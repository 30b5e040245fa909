"""A fit that finds its own checkpoint goes on from it; another's is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learn.engines.agreement import WAYS, N, assert_same, rows

from likewise import SLR, open_rows
from likewise.errors import LikewiseError
from likewise.learn.model_file import write_tensors


@pytest.mark.parametrize("way", ["all pairs", "the whole matrix", "landmarks", "sample", "fixed, iterated"])
def test_going_on_gives_the_model_of_one_run(tmp_path: Path, way: str) -> None:
    X, y = rows(np.float64)
    data = open_rows(X, y, checkpoint=tmp_path / "checkpoint")
    SLR(**{**WAYS[way], "max_iter": 2}).fit(data)
    resumed = SLR(**{**WAYS[way], "max_iter": 5}).fit(data)
    whole = SLR(**{**WAYS[way], "max_iter": 5}).fit(X, y)
    assert_same(whole, resumed, X, 1e-9)
    assert resumed.n_iter_ == len(resumed.history_) == 5
    np.testing.assert_allclose([h["loss"] for h in resumed.history_], [h["loss"] for h in whole.history_], rtol=1e-9)


def test_a_finished_fit_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    first = SLR(rank=6, max_iter=3).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    monkeypatch.setattr("likewise.learn.maths.solvers.AllPairs.step", None)
    again = SLR(rank=6, max_iter=3).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    np.testing.assert_array_equal(first.components_, again.components_)


def test_a_stop_by_tol_stays_a_stop(tmp_path: Path) -> None:
    X, y = rows()
    first = SLR(rank=6, max_iter=20, tol=0.5).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    again = SLR(rank=6, max_iter=20, tol=0.5).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    assert first.n_iter_ == again.n_iter_ < 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 5}, "rank was 6 and is 5 now"),
        ({"alpha": 0.5}, "alpha was 0.0 and is 0.5 now"),
        ({"random_state": 8}, "random_state was"),
        ({"max_iter": 1}, "2 iterations are done, and max_iter=1 asks for fewer"),
    ],
)
def test_other_parameters_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    X, y = rows()
    options: dict[str, Any] = {"rank": 6, "max_iter": 2, "random_state": 7}
    data = open_rows(X, y, checkpoint=tmp_path / "c")
    SLR(**options).fit(data)
    with pytest.raises(LikewiseError, match=message):
        SLR(**{**options, **change}).fit(data)


def test_other_data_is_refused(tmp_path: Path) -> None:
    X, y = rows()
    model = SLR(rank=6, max_iter=2).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    one_row = X.copy()
    one_row[int(np.argsort(y, kind="stable")[5])] *= 3
    relabelled = np.where(np.arange(N) == 3, (y + 1) % 9, y)
    for other_X, other_y, message in [
        (X[:-1], y[:-1], "shape of X was"),
        (X, relabelled, "labels was"),
        (-X, y, "sampled rows of X was"),
        (one_row, y, "the rows of X were others"),
    ]:
        with pytest.raises(LikewiseError, match=message):
            model.fit(open_rows(other_X, other_y, checkpoint=tmp_path / "c"))


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    X, y = rows()
    write_tensors(tmp_path / "c", {"a": np.ones(3)}, {})
    with pytest.raises(LikewiseError, match="is a likewise file, but not a checkpoint"):
        SLR(rank=6).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    (tmp_path / "c").write_bytes(b"nonsense")
    with pytest.raises(LikewiseError, match="is not a likewise file, or it is truncated"):
        SLR(rank=6).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
