"""`likewise evaluate`: the figures are those of the library, next to those of raw cosine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from likewise import SLR, SimilarityLearner
from likewise.evaluate import evaluate
from likewise.evaluate.verification import some_pairs, verification
from likewise.rows import read_table


@pytest.fixture
def model(files: Path, tmp_path: Path) -> Path:
    table = read_table(files / "train.npz")
    return SLR(rank=9, max_iter=1).fit(table.X, table.y).save(tmp_path / "m.likewise")


def _outcome(run: Any, *words: object) -> dict[str, Any]:
    result = run("evaluate", *words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def _assert_close(printed: dict[str, Any], direct: dict[str, Any]) -> None:
    assert printed.keys() == direct.keys()
    for name, value in direct.items():
        assert printed[name] == pytest.approx(value), name


def test_the_figures_are_those_of_the_library(run: Any, files: Path, model: Path) -> None:
    outcome = _outcome(run, model, files / "test.csv")
    test, fitted = read_table(files / "test.npz"), SLR.load(model)
    direct = evaluate(fitted.transform_query(test.X), fitted.transform(test.X), test.y).summary()
    _assert_close(outcome["model"], direct)
    Q = normalize(test.X)
    _assert_close(outcome["raw_cosine"], evaluate(Q, Q, test.y).summary())
    assert outcome["gain"]["mAP"] == pytest.approx(outcome["model"]["mAP"] - outcome["raw_cosine"]["mAP"])
    low, high = outcome["model"]["mAP_interval"]
    assert low < outcome["model"]["mAP"] < high


@pytest.mark.parametrize("option", ["--gallery", "--train"])
def test_a_gallery_is_ranked_in_place_of_the_queries(run: Any, files: Path, model: Path, option: str) -> None:
    outcome = _outcome(run, model, files / "test.npz", option, files / "train.npz")
    test, train, fitted = read_table(files / "test.npz"), read_table(files / "train.npz"), SLR.load(model)
    direct = evaluate(fitted.transform_query(test.X), fitted.transform(train.X), test.y, train.y).summary()
    assert outcome["model"]["mAP"] == pytest.approx(direct["mAP"])
    assert outcome["gallery"].endswith("train.npz")


def test_depths_and_a_draw_of_queries(run: Any, files: Path, model: Path) -> None:
    outcome = _outcome(run, model, files / "test.npz", "--k", 3, "--k", 7, "--queries", 50, "--seed", 1)
    assert {"P@3", "P@7", "R@3", "nDCG@7"} <= set(outcome["model"])
    assert "P@1" not in outcome["model"]
    assert outcome["model"]["n_queries"] == outcome["raw_cosine"]["n_queries"] == 50


def test_people_get_a_table(run: Any, files: Path, model: Path) -> None:
    result = run("evaluate", model, files / "test.npy", "--labels", files / "test.txt")
    assert result.exit_code == 0
    for name in ("raw cosine", "mAP interval", "macro mAP", "P@1", "P@10", "R@10", "MAP@R", "nDCG", "mAP gain"):
        assert name in result.stdout
    assert result.stderr == ""


def test_rows_that_the_model_learned_from_are_named(run: Any, files: Path, model: Path, tmp_path: Path) -> None:
    assert _outcome(run, model, files / "test.npz")["learned_from"] is None
    train, test = (read_table(files / name) for name in ("train.npz", "test.npz"))
    known = _outcome(run, model, files / "train.npz")["learned_from"]
    assert known == {"rows": len(train.y), "mAP_of_others": None}
    printed = " ".join(run("evaluate", model, files / "train.npz").stdout.split())
    assert "the model learned from all of these rows: this does not test it" in printed
    X, y = np.vstack([train.X[:50], test.X]), np.concatenate([train.y[:50], test.y])
    np.savez(tmp_path / "mixed.npz", X=X, y=y)
    mixed, fitted = _outcome(run, model, tmp_path / "mixed.npz"), SLR.load(model)
    each = evaluate(fitted.transform_query(X), fitted.transform(X), y)
    assert mixed["learned_from"]["rows"] == 50
    printed = run("evaluate", model, tmp_path / "mixed.npz").stdout
    assert f"learned from 50 of these rows; mAP of the others {mixed['learned_from']['mAP_of_others']:.4f}" in printed
    assert mixed["learned_from"]["mAP_of_others"] == pytest.approx(each.average_precision[each.queries >= 50].mean())


def test_unseen_classes_are_remarked_on(run: Any, files: Path, model: Path, tmp_path: Path) -> None:
    test = read_table(files / "test.npz")
    np.savez(tmp_path / "t.npz", X=test.X, y=[label.replace("digit 3", "three") for label in test.y])
    result = run("evaluate", model, tmp_path / "t.npz")
    assert "1 of 10 classes" in result.stderr
    assert "was not seen in training" in result.stderr


def test_labels_that_are_numbers_in_one_file_and_text_in_the_other_match(run: Any, files: Path, tmp_path: Path) -> None:
    train, test = read_table(files / "train.npz"), read_table(files / "test.npz")
    numbers = [int(label.split()[1]) for label in test.y]
    texts = np.array([label.split()[1] for label in train.y], dtype=str)
    path = SLR(rank=9, max_iter=1).fit(train.X, texts).save(tmp_path / "m")
    np.savez(tmp_path / "test.npz", X=test.X, y=numbers)
    np.savez(tmp_path / "train.npz", X=train.X, y=np.where(texts == "9", "nine", texts))
    outcome = _outcome(run, path, tmp_path / "test.npz", "--gallery", tmp_path / "train.npz")
    assert outcome["model"]["n_excluded"] == numbers.count(9)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X, y: (X[:, :5], y), "X has 5 features, but SLR is expecting 64 features"),
        (lambda X, y: (X[:10], np.arange(10)), "no query has a relevant item"),
        (lambda X, y: (X, y[:-1]), "has 200 rows but 199 labels"),
        (lambda X, y: (np.where(X > 15, np.nan, X), y), "190 of 200 rows have NaN or infinity (row 1, row 2, "),
    ],
)
def test_data_that_does_not_fit_gets_a_sentence(
    run: Any, files: Path, model: Path, tmp_path: Path, change: Any, sentence: str
) -> None:
    test = read_table(files / "test.npz")
    X, y = change(test.X, test.y)
    np.savez(tmp_path / "t.npz", X=X, y=y)
    result = run("evaluate", model, tmp_path / "t.npz")
    assert result.exit_code == 2
    assert sentence in result.stderr.splitlines()[-1]
    assert result.stdout == ""


def test_a_file_that_is_no_model_gets_a_sentence(run: Any, files: Path) -> None:
    result = run("evaluate", files / "test.csv", files / "test.csv")
    assert result.exit_code == 2
    assert "test.csv is a table, and a model is expected: likewise fit" in result.stderr


def test_model_and_data_may_be_swapped(run: Any, files: Path, model: Path) -> None:
    assert _outcome(run, files / "test.npz", model) == _outcome(run, model, files / "test.npz")


def test_a_sample_of_a_file_is_measured_in_blocks_with_the_same_result(run: Any, files: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    run("fit", files / "train.npz", "-o", model, "--method", "slr", "--rank", 8, "--max-iter", 1)
    words = ("evaluate", model, "--sample", 50, "--json")
    blocks = json.loads(run(*words, files / "test.npy", "--labels", files / "test.txt").stdout)
    whole = json.loads(run(*words, files / "test.npz").stdout)
    assert blocks["model"]["n_queries"] == 50
    assert blocks["model"]["mAP"] == pytest.approx(whole["model"]["mAP"], abs=1e-9)
    assert blocks["raw_cosine"]["mAP"] == pytest.approx(whole["raw_cosine"]["mAP"], abs=1e-9)
    assert blocks["model"]["mAP_interval"] == pytest.approx(whole["model"]["mAP_interval"])


def test_pairs_have_thresholds_by_their_false_accepts(run: Any, files: Path, model: Path) -> None:
    pairs = _outcome(run, model, files / "test.csv")["pairs"]
    test, fitted = read_table(files / "test.npz"), SLR.load(model)
    direct = verification(*some_pairs(fitted, test.X, test.y))
    assert pairs["AUROC"] == pytest.approx(direct.auroc)
    assert pairs["thresholds"][0]["score"] == pytest.approx(direct.thresholds[0].score)
    assert pairs["calibration_error"] is None
    assert "equal error rate" in run("evaluate", model, files / "test.csv").stdout


@pytest.fixture(scope="module")
def calibrated(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of every other digit, with probabilities."""
    table = read_table(files / "train.npz")
    even = np.isin(table.y, np.unique(table.y)[::2])
    model = SimilarityLearner(kernel="linear", scaling="unit", random_state=0).fit(table.X[even], table.y[even])
    return model.save(tmp_path_factory.mktemp("calibrated") / "half.likewise")


def test_a_calibrated_model_and_unknown_classes(run: Any, files: Path, calibrated: Path) -> None:
    outcome = _outcome(run, calibrated, files / "test.csv")
    assert 0 <= outcome["pairs"]["calibration_error"] < 0.5
    assert outcome["open_set"]["AUROC"] > 0.5
    assert 0 < outcome["open_set"]["mAP_of_known"] <= 1
    assert "unknown classes: AUROC" in run("evaluate", calibrated, files / "test.csv").stdout


def test_the_report_holds_both_curves(run: Any, files: Path, calibrated: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("evaluate", calibrated, files / "test.csv", "--report", tmp_path / "page.html")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "Expected calibration error" in page


def test_models_are_compared_by_the_metric_asked_for(run: Any, files: Path, model: Path) -> None:
    outcome = _outcome(run, model, files / "test.npz", "--k", 1, "--metric", "ndcg@10")
    gain = outcome["model"]["nDCG@10"] - outcome["raw_cosine"]["nDCG@10"]
    assert outcome["gain"]["nDCG@10"] == pytest.approx(gain)
    low, high = outcome["gain"]["nDCG@10_interval"]
    assert low < gain < high
    printed = run("evaluate", model, files / "test.npz", "--metric", "ndcg@10").stdout
    assert f"nDCG@10 gain {gain:+.4f}" in printed


@pytest.fixture
def good(files: Path, tmp_path: Path) -> Path:
    table = read_table(files / "train.npz")
    return SimilarityLearner(kernel="linear", random_state=0).fit(table.X, table.y).save(tmp_path / "good.likewise")


@pytest.fixture
def bad(files: Path, tmp_path: Path) -> Path:
    """A model of shuffled labels."""
    table = read_table(files / "train.npz")
    y = np.random.default_rng(0).permutation(table.y)
    return SLR(rank=2, max_iter=1).fit(table.X, y).save(tmp_path / "bad.likewise")


def test_a_model_that_is_clearly_worse_than_the_one_in_use_exits_with_4(
    run: Any, files: Path, good: Path, bad: Path
) -> None:
    worse = run("evaluate", bad, "--against", good, files / "test.npz", "--json")
    outcome = json.loads(worse.stdout)
    assert (worse.exit_code, outcome["verdict"]) == (4, "worse")
    assert outcome["difference"]["mAP"] == pytest.approx(outcome["new"]["mAP"] - outcome["old"]["mAP"])
    assert outcome["difference"]["p_value"] < 0.05
    losses = [one["new"] - one["old"] for one in outcome["classes"]]
    assert losses == sorted(losses)
    assert sum(one["n_queries"] for one in outcome["classes"]) == outcome["new"]["n_queries"]
    assert sum(one["n_queries"] * one["new"] for one in outcome["classes"]) == pytest.approx(
        outcome["new"]["n_queries"] * outcome["new"]["mAP"]
    )
    for new, old, words in ((good, bad, "clearly better"), (good, good, "no clear difference")):
        result = run("evaluate", new, "--against", old, files / "test.npz")
        assert result.exit_code == 0
        assert f"{words}: mAP +" in result.stdout
    text = run("evaluate", bad, "--against", good, files / "test.npz").stdout
    assert "classes that lose most" in text
    assert "clearly worse: mAP -" in text


def test_rows_that_either_model_learned_from_do_not_count_in_a_comparison(
    run: Any, files: Path, good: Path, bad: Path, tmp_path: Path
) -> None:
    train, test = (read_table(files / name) for name in ("train.npz", "test.npz"))
    X, y = np.vstack([train.X[:50], test.X]), np.concatenate([train.y[:50], test.y])
    np.savez(tmp_path / "mixed.npz", X=X, y=y)
    mixed, clean = (
        json.loads(run("evaluate", good, "--against", bad, data, "--json").stdout)
        for data in (tmp_path / "mixed.npz", files / "test.npz")
    )
    assert mixed["n_learned_left_out"] == 50
    assert mixed["new"]["mAP"] == clean["new"]["mAP"]
    result = run("evaluate", good, "--against", bad, files / "train.npz")
    assert (result.exit_code, result.stderr) == (
        2,
        f"likewise: error: the models learned from all rows of {files / 'train.npz'}: "
        "expected some that neither has seen\n",
    )
    result = run("evaluate", good, "--against", bad, files / "test.npz", "--report", tmp_path / "page.html")
    assert result.stderr == "likewise: error: --report is for one model: leave it out with --against\n"
