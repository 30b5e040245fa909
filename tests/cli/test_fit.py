"""`likewise fit`: what is saved can be loaded and does what was asked for."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import normalize
from tests.clicked import clicked

from likewise import SLR, load
from likewise.cli.fit import methods, relevance_line
from likewise.learn.maths.solvers import Result
from likewise.learn.model_file import read_tensors
from likewise.rows import FeatureStore, read_table

PAPER = ("--method", "slr")


def _result(run: Any, *words: object, **options: Any) -> dict[str, Any]:
    result = run(*words, "--json", **options)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_saved_model_is_that_of_the_library(run: Any, files: Path, tmp_path: Path) -> None:
    summary = _result(
        run, "fit", files / "train.csv", "-o", tmp_path / "m.likewise", *PAPER, "--rank", 12, "--max-iter", 2
    )
    table = read_table(files / "train.npz")
    direct = SLR(rank=12, max_iter=2).fit(table.X, table.y)
    test = read_table(files / "test.npz")
    assert np.allclose(load(tmp_path / "m.likewise").similarity(test.X), direct.similarity(test.X), atol=1e-8)
    assert (summary["rank"], summary["iterations"], summary["rows"], summary["classes"]) == (12, 2, 500, 10)
    assert summary["loss"] == pytest.approx(direct.history_[-1]["loss"])


@pytest.mark.parametrize("source", ["train.npz", "train.npy", "-"])
def test_every_source_gives_the_same_model(run: Any, files: Path, tmp_path: Path, source: str) -> None:
    data = "-" if source == "-" else files / source
    words = ["--labels", files / "train.txt"] if source == "train.npy" else []
    text = (files / "train.csv").read_text() if source == "-" else None
    _result(run, "fit", data, *words, "-o", tmp_path / "a", *PAPER, "--max-iter", 1, input=text)
    _result(run, "fit", files / "train.csv", "-o", tmp_path / "b", *PAPER, "--max-iter", 1)
    a, b = load(tmp_path / "a"), load(tmp_path / "b")
    assert np.allclose(a.components_, b.components_, atol=1e-8)
    assert a.classes_.tolist() == b.classes_.tolist()


def test_every_option_reaches_the_model(run: Any, files: Path, tmp_path: Path) -> None:
    options = ["--rank", 5, "--max-iter", 2, "--alpha", 0.5, "--compress", "sample", "--compress-size", 100]
    _result(run, "fit", files / "train.npz", "-o", tmp_path / "m", *PAPER, *options, "--seed", 7, "--tol", 0.1)
    parameters = read_tensors(tmp_path / "m")[1]["parameters"]
    expected = {"rank": 5, "max_iter": 2, "alpha": 0.5, "compress": "sample", "compress_size": 100, "random_state": 7}
    assert {name: parameters[name] for name in expected} == expected
    assert (parameters["tol"], parameters["verbose"]) == (0.1, 0)


def test_the_whole_matrix_and_the_fixed_target(run: Any, files: Path, tmp_path: Path) -> None:
    _result(run, "fit", files / "train.npz", "-o", tmp_path / "m", "--whole", "--method", "slr-fixed")
    parameters = read_tensors(tmp_path / "m")[1]["parameters"]
    assert (parameters["rank"], parameters["adaptive"]) == (None, False)


@pytest.mark.parametrize("method", ["cosine", "euclid", "lda"])
def test_baselines_can_be_fitted_and_loaded(run: Any, files: Path, tmp_path: Path, method: str) -> None:
    assert method in methods()
    summary = _result(run, "fit", files / "train.npz", "-o", tmp_path / "m", "--method", method)
    assert summary["method"] == method
    assert load(tmp_path / "m").transform(read_table(files / "test.npz").X).shape[0] == 200


@pytest.mark.parametrize("method", ["cosine", "euclid"])
def test_a_method_that_needs_no_labels_takes_all_rows_without(
    run: Any, files: Path, tmp_path: Path, method: str
) -> None:
    result = run("fit", files / "train.npy", "-o", tmp_path / "m", "--method", method)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == f"{method} on 500 rows, 64 columns"
    assert load(tmp_path / "m").n_samples_ == 500
    assert "has no labels" in run("fit", files / "train.npy", "-o", tmp_path / "m", "--method", "whitening").stderr


def test_a_test_table_is_measured_and_kept_in_the_card(run: Any, files: Path, tmp_path: Path) -> None:
    words = [*PAPER, "--max-iter", 1, "--test", files / "test.npz"]
    summary = _result(run, "fit", files / "train.npz", "-o", tmp_path / "m", *words)
    test = read_table(files / "test.npz")
    assert summary["mAP"] == pytest.approx(load(tmp_path / "m").score(test.X, test.y))
    assert read_tensors(tmp_path / "m")[1]["metrics"]["mAP"] == summary["mAP"]


def test_people_get_words(run: Any, files: Path, tmp_path: Path) -> None:
    result = run(
        "fit", files / "train.npz", "-o", tmp_path / "m", *PAPER, "--max-iter", 1, "--test", files / "test.npz"
    )
    assert "slr on 500 rows, 64 columns, 10 classes" in result.stdout
    assert "test mAP 0." in result.stdout
    assert f"saved {tmp_path / 'm'}" in result.stdout


def test_the_recommended_method_is_the_default_and_tells_what_it_chose(run: Any, files: Path, tmp_path: Path) -> None:
    summary = _result(run, "fit", files / "train.npz", "-o", tmp_path / "m", "--kernel", "linear", "--posterior")
    assert summary["method"] == "anchored"
    assert summary["setting"]["temperature"] > 0
    assert load(tmp_path / "m").class_means_.shape[0] == 10  # one probability per class, and the raw part appended


def test_the_chosen_setting_is_printed_in_words_too(run: Any, files: Path, tmp_path: Path) -> None:
    result = run("fit", files / "train.npz", "-o", tmp_path / "m", "--kernel", "linear", "--scaling", "standard")
    assert "scaling standard" in result.stdout
    assert "ridge 0." in result.stdout


def test_rows_without_a_label_are_left_out_with_a_remark(run: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(rng.normal(size=(8, 2)), ["x", "y", "", "x"] * 2, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,label", *lines]))
    result = run("fit", tmp_path / "d.csv", "-o", tmp_path / "m", "--json")
    assert json.loads(result.stdout)["rows"] == 6
    assert result.stderr == f"likewise: {tmp_path / 'd.csv'}: 2 of 8 rows have no label and are left out\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "magic"], "--method magic is not known: expected one of anchored, slr, slr-fixed"),
        (["--whole", "--rank", 3], "--whole and --rank exclude each other"),
        (["--method", "cosine", "--rank", 3], "--rank has no meaning for the method cosine"),
        (["--method", "cosine", "--whole"], "--whole has no meaning for the method cosine"),
        ([*PAPER, "--compress", "sample"], "compress='sample' needs compress_size"),
        ([*PAPER, "--rank", 0], "rank"),
        ([*PAPER, "--compress", "magic", "--compress-size", 90], "compress"),
        (["--rank", 3], "--rank has no meaning for the method anchored"),
        ([*PAPER, "--posterior"], "--posterior has no meaning for the method slr"),
        (["--kernel", "magic"], "kernel"),
        (["--scaling", "magic"], "scaling"),
        (["--label-column", "colour"], "has no key 'colour': it holds X (2-D), y (1-D)"),
    ],
)
def test_wrong_options_get_a_sentence(run: Any, files: Path, tmp_path: Path, words: list, sentence: str) -> None:
    result = run("fit", files / "train.npz", "-o", tmp_path / "m", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.startswith("likewise: error: ")
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("values", "labels", "sentence"),
    [
        ([[1.0, np.nan]] * 4, ["a", "b"] * 2, "(row 1, row 2, row 3, row 4); --drop-invalid leaves them out"),
        ([[1.0, np.inf]] * 4, ["a", "b"] * 2, "4 of 4 rows have NaN or infinity (row 1, row 2,"),
        ([[1.0, 2.0]] * 4, ["a"] * 4, "one class"),
        ([[1.0, 2.0]] * 4, ["a", "b", "c", "d"], "distinct"),
        ([[0.0, 0.0]] * 4, ["a", "b"] * 2, "zeros"),
        ([[1.0, 2.0]], ["a"], "1"),
    ],
)
@pytest.mark.parametrize("method", ["anchored", "slr"])
def test_bad_data_gets_a_sentence(
    run: Any, tmp_path: Path, values: list, labels: list, sentence: str, method: str
) -> None:
    np.savez(tmp_path / "d.npz", X=values, y=labels)
    result = run("fit", tmp_path / "d.npz", "-o", tmp_path / "m", "--method", method)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "m").exists()


def test_a_place_that_cannot_be_written_is_refused_before_the_work(run: Any, files: Path, tmp_path: Path) -> None:
    result = run("fit", files / "train.npz", "-o", tmp_path / "no" / "m")
    assert result.exit_code == 2
    assert f"the folder {tmp_path / 'no'} of --output does not exist" in result.stderr
    assert "is a folder: expected a file to write" in run("fit", files / "train.npz", "-o", tmp_path).stderr


def test_ctrl_c_saves_the_last_full_iteration(run: Any, files: Path, tmp_path: Path, monkeypatch: Any) -> None:
    real = Result.converged

    def interrupting(result: Result, tol: float) -> bool:
        if result.n_iter == 2:
            raise KeyboardInterrupt
        return real(result, tol)

    monkeypatch.setattr(Result, "converged", interrupting)
    result = run("fit", files / "train.npz", "-o", tmp_path / "m", *PAPER, "--max-iter", 9)
    assert result.exit_code == 130
    assert "stopped by Ctrl-C: the model is that of iteration 2" in result.stderr
    assert load(tmp_path / "m").n_iter_ == 2


def test_svmlight_and_csr_files_are_learned_from_and_a_test_file_may_be_narrower(
    run: Any, files: Path, tmp_path: Path
) -> None:
    import scipy.sparse as sp
    from sklearn.datasets import dump_svmlight_file

    train, test = read_table(files / "train.npz"), read_table(files / "test.npz")
    used = test.X[:, :60]  # the last columns never occur in the test file
    y = {name: np.unique(table.y, return_inverse=True)[1] for name, table in (("train", train), ("test", test))}
    dump_svmlight_file(train.X, y["train"], str(tmp_path / "train.svm"), zero_based=False)
    dump_svmlight_file(used, y["test"], str(tmp_path / "test.svm"), zero_based=False)
    sp.save_npz(tmp_path / "train.npz", sp.csr_array(train.X))
    np.save(tmp_path / "y.npy", y["train"])
    of_svm, of_csr = (tmp_path / f"{name}.likewise" for name in ("svm", "csr"))
    summary = _result(
        run, "fit", tmp_path / "train.svm", "-o", of_svm, "--method", "slr-fixed",
        "--test", tmp_path / "test.svm",
    )  # fmt: skip
    labels = ("--labels", tmp_path / "y.npy")
    _result(run, "fit", tmp_path / "train.npz", *labels, "-o", of_csr, "--method", "slr-fixed")
    padded = np.hstack([used, np.zeros((len(used), 64 - used.shape[1]))])
    expected = SLR(adaptive=False).fit(train.X, y["train"])
    assert summary["rank"] == expected.rank_
    assert summary["mAP"] == pytest.approx(expected.score(padded, y["test"]), abs=1e-4)
    for path in (of_svm, of_csr):
        assert np.allclose(load(path).similarity(padded), expected.similarity(padded), atol=1e-4)
    measured = _result(run, "evaluate", of_svm, tmp_path / "test.svm")
    assert measured["model"]["mAP"] == pytest.approx(summary["mAP"], abs=1e-6)


def test_a_file_is_learned_from_where_it_is_and_a_checkpoint_is_gone_on_from(
    run: Any, files: Path, tmp_path: Path
) -> None:
    words = ("fit", files / "train.npy", "--labels", files / "train.txt", "--method", "slr", "--rank", 8, "--json")
    limit = ("--memory-limit", "1MB", "--checkpoint", tmp_path / "checkpoint")
    first = run(*words, *limit, "--max-iter", 2, "-o", tmp_path / "first")
    assert first.exit_code == 0, first.stderr
    assert json.loads(first.stdout)["rows"] == 500
    again = run(*words, *limit, "--max-iter", 4, "-o", tmp_path / "again")
    assert json.loads(again.stdout)["iterations"] == 4
    whole = run(*words, "--max-iter", 4, "-o", tmp_path / "whole")
    assert json.loads(whole.stdout)["loss"] == pytest.approx(json.loads(again.stdout)["loss"], rel=1e-6)
    other = run(*words, *limit, "--max-iter", 4, "--alpha", 0.5, "-o", tmp_path / "other")
    assert other.exit_code == 2
    assert "belongs to another fit: alpha was 0.0 and is 0.5 now" in other.stderr


def test_the_recommended_method_goes_on_from_a_checkpoint_too(run: Any, files: Path, tmp_path: Path) -> None:
    words = ("fit", files / "train.npz", "--kernel", "linear", "--checkpoint", tmp_path / "checkpoint")
    for name in ("a", "b"):
        _result(run, *words, "-o", tmp_path / name)
    test = read_table(files / "test.npz").X
    np.testing.assert_array_equal(load(tmp_path / "a").transform(test), load(tmp_path / "b").transform(test))
    other = run(*words, "-o", tmp_path / "c", "--seed", 3)
    assert (other.exit_code, "belongs to another fit: random_state was" in other.stderr) == (2, True)


def _visited(run: Any, *words: object) -> set[tuple[str, str]]:
    """The classes of the estimators and of the core that a command runs code of, each with its file.

    Not those of `learn/maths/engine.py`: what a block of rows is belongs to the room below.
    """
    import likewise

    root, seen = Path(likewise.__file__).parent, set()

    def watch(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        owner = code.co_qualname.partition(".<locals>")[0].rpartition(".")[0]
        if event == "call" and owner and code.co_filename.startswith(str(root)):
            seen.add((str(Path(code.co_filename).relative_to(root)), owner))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        result = run(*words)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.stderr
    return {(file, owner) for file, owner in seen if _is_ours(file)}


def _is_ours(file: str) -> bool:
    return file != "learn/maths/engine.py" and file.startswith(("learn/slr", "learn/similarity", "learn/maths/"))


ONE_CODE = [
    (*PAPER, "--rank", 8),
    (*PAPER, "--rank", 8, "--compress", "landmarks", "--compress-size", 90),
    ("--kernel", "linear"),
]


@pytest.mark.parametrize("options", ONE_CODE)
def test_an_archive_and_a_store_run_the_same_classes(run: Any, files: Path, tmp_path: Path, options: Any) -> None:
    train = read_table(files / "train.npz")  # every call of the two fits is watched: few rows
    store = FeatureStore.write(tmp_path / "train.features", train.X[:150], train.y[:150])
    np.savez(tmp_path / "train.npz", X=np.asarray(store.features), y=train.y[:150])
    seen = {
        name: _visited(run, "fit", tmp_path / name, "-o", tmp_path / f"{name}.likewise", *options)
        for name in ("train.npz", "train.features")
    }
    assert seen["train.npz"]
    assert seen["train.npz"] == seen["train.features"]
    X = np.asarray(store.features)
    a, b = (load(tmp_path / f"{name}.likewise").similarity(X) for name in seen)
    assert np.abs(a - b).max() <= 1e-4 * np.abs(a).max()


@pytest.mark.parametrize("name", ["train.npz", "train.npy"])
def test_data_is_read_once(run: Any, files: Path, tmp_path: Path, monkeypatch: Any, name: str) -> None:
    import likewise.rows.reading as reading

    read, seen = reading._read, []
    monkeypatch.setattr(reading, "_read", lambda *arguments: seen.append(arguments[0]) or read(*arguments))
    words = ["--labels", files / "train.txt"] if name.endswith("npy") else []
    _result(run, "fit", files / name, *words, "-o", tmp_path / "m", *PAPER, "--max-iter", 1)
    assert seen == [str(files / name)]


def test_invalid_limits_and_clusters_are_refused_in_a_sentence(run: Any, files: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "m")
    npy = (files / "train.npy", "--labels", files / "train.txt")
    for words, message in [
        ((*npy, "--memory-limit", "lots"), "memory_limit='lots': expected bytes"),
        ((*npy, "--memory-limit", "1kB"), "memory_limit='1kB' is too little for 500 rows of 64"),
        ((*npy, "--method", "lda", "--memory-limit", "1GB"), "--memory-limit has no meaning for the method lda"),
        ((files / "train.npy",), "train.npy has no labels: name a file with --labels"),
        ((files / "train.csv", "--dask", "tcp://127.0.0.1:1"), "--dask is for a .npy file or a folder of features"),
    ]:
        result = run("fit", *words, *out)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "m").exists()


# ---------------------------------------------------------------------------------------------------------------------
# Clicks and grades


def _written(folder: Path, random: float) -> tuple[Any, ...]:
    log = clicked(random)
    np.savez(folder / "queries.npz", X=log.Q)
    np.savez(folder / "items.npz", X=log.G)
    pairs = log.clicks.R.tocoo()
    lines = [f"{q},{g},1" for q, g in zip(pairs.row, pairs.col, strict=True)]
    (folder / "clicks.csv").write_text("\n".join(["query,item,clicked", *lines]) + "\n")
    words = ("fit", folder / "queries.npz", "--relevance", folder / "clicks.csv", "--gallery", folder / "items.npz")
    return (*words, "-o", folder / "m.likewise")


def test_a_good_log_prints_what_it_gains(run: Any, tmp_path: Path) -> None:
    words = _written(tmp_path, 0.0)
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    assert "clicks.csv: 2,713 clicks of 249 queries" in result.stderr
    assert "relevance on 250 rows, 64 columns, 2,713 known pairs" in result.stdout
    line = next(line for line in result.stdout.splitlines() if line.startswith("nDCG@10"))
    number = r"(?:\.\d\d|1\.00)"
    pattern = rf"nDCG@10 of known items {number} -> {number}, new items {number} -> {number} \(\d+ queries, held out\)"
    assert re.fullmatch(pattern, line)
    held = json.loads(run(*words, "--json").stdout)["held_out"]
    assert held["known"][1] > held["known"][0]
    assert load(tmp_path / "m.likewise").learned_


def test_a_noisy_log_is_refused_in_one_sentence(run: Any, tmp_path: Path) -> None:
    result = run(*_written(tmp_path, 1.0))
    assert result.exit_code == 0, result.stderr
    assert "the ranking stays as it is" in result.stdout
    assert not load(tmp_path / "m.likewise").learned_


def test_two_clicks_are_too_few(run: Any, tmp_path: Path) -> None:
    words = _written(tmp_path, 0.0)
    (tmp_path / "clicks.csv").write_text("query,item\n0,1\n1,2\n")
    result = run(*words)
    assert "2 queries are too few to tell: the ranking stays as it is; at least 10 are needed" in result.stdout


@pytest.mark.parametrize(
    ("n_queries", "held", "learned", "line"),
    [
        (50, {"needed": 120, "queries": 50}, False,
         "50 queries are too few to tell: the ranking stays as it is; about 70 more would tell"),
        (50, {"needed": None, "queries": 50}, False,
         "held-out queries do not gain (50 queries): the ranking stays as it is"),
        (809, {"measure": "nDCG@10", "queries": 809, "known": [0.64, 0.92], "new": [0.67, 0.999]}, True,
         "nDCG@10 of known items .64 -> .92, new items .67 -> 1.00 (809 queries, held out)"),
    ],
)  # fmt: skip
def test_the_line_says_what_is_known_and_how_many_more_would_tell(n_queries, held, learned, line) -> None:
    model = SimpleNamespace(
        n_samples_=n_queries, held_out_=held, learned_=learned, n_features_in_=2, n_gallery_features_=2
    )
    assert relevance_line(model) == line


def test_the_query_side_alone_leaves_the_items(run: Any, tmp_path: Path) -> None:
    words = _written(tmp_path, 0.0)
    result = run(*words, "--side", "query")
    assert result.exit_code == 0, result.stderr
    G = np.load(tmp_path / "items.npz")["X"]
    np.testing.assert_allclose(load(tmp_path / "m.likewise").transform(G), normalize(G))


def test_the_help_groups_options_by_method(run: Any) -> None:
    panels = re.split(r"╭─ (.*?) ─*╮", run("fit", "--help").stdout)
    of = dict(zip(panels[1::2], panels[2::2], strict=True))
    assert {"--kernel", "--components"} <= set(of["Options of anchored"].split())
    assert "--rank" in of["Options of slr"]
    assert "--gallery" in of["Options of --relevance"]
    assert "--kernel" not in of["Options"]


def test_vectors_have_the_width_that_was_asked_for_and_the_recall_is_printed(
    run: Any, files: Path, tmp_path: Path
) -> None:
    done = run("fit", files / "train.csv", "-o", tmp_path / "m.likewise", "--components", 6, "--kernel", "linear")
    assert re.search(r"recall@10 against whole vectors 0\.\d{4}, of rows of this fit", done.stdout)
    assert load(tmp_path / "m.likewise").transform(np.ones((1, 64))).shape == (1, 6)
