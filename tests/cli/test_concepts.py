"""`likewise concepts`: labels as saved searches, with what fits them and what is new."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Feedback, Teacher, load_index, save_index

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """500 digits without labels, of which some zeros were labelled and some others marked wrong for one."""
    folder = Index.build(Cosine(centre=True).fit(X), X[:500], [f"digit {row}" for row in range(500)]).save(
        tmp_path / "d.index"
    )
    teacher = Teacher(load_index(folder), Feedback(folder))
    zeros = np.flatnonzero(Y[:500] == 0)
    teacher.label(zeros[:12].tolist(), "zero")
    teacher.mark(int(zeros[0]), np.flatnonzero(Y[:500] != 0)[:60:5].tolist(), False)
    teacher.learn()
    return folder


def test_a_label_is_listed_with_what_fits_it_and_what_is_new(run: Any, index: Path) -> None:
    done = run("concepts", index, "--json")
    assert done.exit_code == 0, done.output
    (concept,) = json.loads(done.stdout)["concepts"]
    assert (concept["label"], concept["items"], concept["new"]) == ("zero", 12, 0)
    assert concept["fitting"] > 20
    new = [500 + int(place) for place in np.flatnonzero(Y[500:700] == 0)[:5]]
    save_index(load_index(index).plus(X[new], [f"digit {row}" for row in new]), index)
    (concept,) = json.loads(run("concepts", index, "--json").stdout)["concepts"]
    assert concept["new"] >= 4
    assert "zero" in run("concepts", index).stdout


def test_the_list_has_all_items_with_their_labels(run: Any, index: Path, tmp_path: Path) -> None:
    done = run("concepts", index, "--csv", tmp_path / "c.csv")
    assert done.exit_code == 0, done.output
    lines = (tmp_path / "c.csv").read_text().splitlines()
    assert lines[0] == "id,label,probability"
    ids = [int(line.split(",")[0].removeprefix("digit ")) for line in lines[1:]]
    assert len(ids) > 32
    assert np.mean(Y[ids] == 0) > 0.9


def test_without_labels_there_is_a_sentence(run: Any, tmp_path: Path) -> None:
    folder = Index.build(Cosine().fit(X[:50]), X[:50]).save(tmp_path / "e.index")
    assert "no label was given" in run("concepts", folder).output
