"""The benchmark of galleries with new classes: which rows are learned from and searched, and what is said of them."""

import numpy as np
import pytest
from benchmarks.open_gallery import EXPERIMENTS, METHODS, OURS, SMOOTHED, Check, measured, tasks, verdict
from benchmarks.open_sets import Source
from tests.planted import planted

OPEN = EXPERIMENTS["open-gallery"]


def _source():
    X, y = planted(400, 12, 8)
    return Source(X, y, X)


def test_labelled_rows_are_of_taught_classes_and_in_the_gallery_only_where_the_task_says_so():
    source = _source()
    for cells, _ in tasks("planted", source, 0, 10_000, OPEN):
        for cell, task in cells:
            shared = {row.tobytes() for row in task.X} & {row.tobytes() for row in task.gallery}
            assert len(shared) == task.inside == (len(task.X) if cell.inside else 0)
            is_taught = np.isin(task.codes, task.y)
            assert is_taught.all() if cell.new == 0 else not is_taught.any() if cell.new == 1 else is_taught.any()
            assert cell.labelled == 0 or np.bincount(task.y).max() <= cell.labelled


@pytest.mark.second
def test_every_method_ranks_the_same_gallery():
    cells, fits = next(tasks("planted", _source(), 0, 10_000, OPEN._replace(new=(0.5,), labelled=(5,))))
    for _, task in cells:
        for method in METHODS:
            figures = measured(task, fits, method)
            assert all(0 <= value <= 100 for value in figures[method]["mAP"]), method
        assert {OURS, OURS + SMOOTHED} == set(figures)


def test_a_verdict_names_what_is_not_met():
    assert verdict([Check("taught", 50.0, 50.3, -0.3), Check("new", None, 3.0, 0.0)]) == "yes"
    assert verdict([Check("taught", 50.0, 50.4, -0.3), Check("mean", 50.0, 49.5, 1.0)]) == "**taught −0.4, mean +0.5**"
