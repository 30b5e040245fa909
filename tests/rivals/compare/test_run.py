"""`likewise.compare`: the same rows for all, figures that can be had by hand, and rows for what fails."""

import json
from functools import partial
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits, load_wine

import likewise
from likewise.errors import LikewiseError
from likewise.evaluate import evaluate
from likewise.rivals import LDA, Cosine
from likewise.rivals.compare import Comparison
from likewise.rivals.compare.methods import Size, seen_methods, unseen_methods
from likewise.rivals.compare.run import class_obstacle, class_part, mixed_part, row_part
from likewise.search.neighbors import smoothed


class Broken(BaseEstimator):
    """Fails in the way asked for."""

    def __init__(self, how: str = "fit") -> None:
        self.how = how

    def fit(self, X: Any, y: Any) -> Self:
        if self.how == "fit":
            raise RuntimeError("the disc is full\nand more")
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.full((X.shape[0], 2), np.nan)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300]


@pytest.fixture(scope="module")
def comparison(rows: tuple[np.ndarray, np.ndarray]) -> Comparison:
    models = {"no disc": Broken(), "no numbers": Broken("transform"), "my cosine": Cosine()}
    return likewise.compare(
        *rows, methods=["cosine", "lda", "rca", "anchored-linear", "nca"], models=models, splits=2, small=50
    )


def test_figures_are_those_of_a_fit_and_an_evaluation_by_hand(
    rows: tuple[np.ndarray, np.ndarray], comparison: Comparison
) -> None:
    X, y = rows
    rng = np.random.default_rng([0, 1])
    scores = []
    for split in range(2):
        part = row_part(y, 0.3, rng)
        model = LDA(random_state=split).fit(X[part.train], y[part.train])
        Q = X[part.held]
        scores.append(evaluate(model.transform_query(Q), model.transform(Q), y[part.held]).mean_average_precision)
    assert comparison.seen
    lda = next(outcome for outcome in comparison.seen.outcomes if outcome.name == "lda")
    assert lda.score == pytest.approx(np.mean(scores))
    assert lda.width == 9
    assert lda.runs[0].setting["shrinkage"] in LDA().grid


def test_all_methods_answer_the_same_queries(comparison: Comparison) -> None:
    for standing in comparison.standings.values():
        assert len({len(outcome.values) for outcome in standing.outcomes if not outcome.failed}) == 1
        one, same = (next(o for o in standing.outcomes if o.label == label) for label in ("cosine", "my cosine"))
        np.testing.assert_array_equal(one.values, same.values)
        assert standing.contest(one, same).verdict == "tie"


def test_a_failure_is_a_row_with_its_reason_and_ends_nothing(comparison: Comparison) -> None:
    assert comparison.seen
    errors = {outcome.label: outcome.error for outcome in comparison.seen.outcomes if outcome.failed}
    assert errors == {
        "no disc": "RuntimeError: the disc is full",
        "no numbers": "LikewiseError: Q contains NaN or infinity: every embedding must be finite",
        "NCA": "not run: 209 training rows are more than small=50",
    }
    assert {outcome.label for outcome in comparison.seen.ranked[-3:]} == set(errors)


def test_the_new_classes_are_not_those_learned_from(comparison: Comparison) -> None:
    assert comparison.unseen
    assert comparison.unseen.n_classes == (5, 5)
    assert [outcome.name for outcome in comparison.unseen.outcomes][:3] == ["cosine", "rca", "lda"]
    assert comparison.unseen.n_train + comparison.unseen.n_test == 300


def test_it_can_be_printed_read_by_programs_and_put_on_a_page(comparison: Comparison) -> None:
    text, page = str(comparison), comparison.to_html("A & B", "likewise compare x.npz")
    value = json.loads(json.dumps(comparison.to_dict()))
    assert value["seen"]["methods"][0]["mAP"] == comparison.seen.ranked[0].score  # type: ignore[union-attr]
    for words in (
        "Known classes",
        "New classes",
        "Both in one gallery",
        "taught",
        "nDCG@10",
        "LDA + cosine",
        "SimilarityLearner (linear)",
        "the disc is full",
        "± sd",
    ):
        assert words in text
        assert words in page
    assert comparison.recommendation() in page.replace("&gt;", ">").replace("&lt;", "<")
    assert " ".join(text.split()).endswith(comparison.recommendation())
    assert "A &amp; B" in page
    assert "likewise compare x.npz" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<table>" in comparison._repr_html_()


def test_a_table_does_not_depend_on_whether_there_is_another(
    rows: tuple[np.ndarray, np.ndarray], comparison: Comparison
) -> None:
    alone = likewise.compare(*rows, methods=["cosine"], seen=False, mixed=False)
    assert alone.seen is None
    assert alone.unseen
    assert comparison.unseen
    np.testing.assert_array_equal(alone.unseen.outcomes[0].values, comparison.unseen.outcomes[0].runs[0].values)


def test_settings_chosen_are_listed_those_behind_a_kernel_too(rows: tuple[np.ndarray, np.ndarray]) -> None:
    standing = likewise.compare(*rows, methods=["nystroem-ridge", "anchored-linear"], unseen=False, mixed=False).seen
    assert standing
    settings = {outcome.name: outcome.runs[0].setting for outcome in standing.outcomes}
    assert set(settings["nystroem-ridge"]) == {"width", "alpha"}
    assert {"ridge", "adaptation"} <= set(settings["anchored-linear"])


def test_cosines_are_ranked_with_neighbours_in_a_block_of_their_own(
    rows: tuple[np.ndarray, np.ndarray], comparison: Comparison
) -> None:
    X, y = rows
    standing = likewise.compare(X, y, methods=["cosine", "slr-fixed", "lda-posterior"], unseen=False, mixed=False).seen
    assert standing
    assert standing.with_neighbours
    assert [outcome.name for outcome in standing.with_neighbours.outcomes] == ["cosine"]
    part = row_part(y, 0.3, np.random.default_rng([0, 1]))
    Z = smoothed(Cosine().fit(X).transform(X[part.held]), 10)
    expected = evaluate(Z, Z, y[part.held]).mean_average_precision
    assert standing.with_neighbours.outcomes[0].score == pytest.approx(expected)
    for words in (str(comparison), comparison.to_html()):
        assert "With neighbours: every cosine" in words
    assert standing.to_dict()["with_neighbours"]["methods"][0]["method"] == "cosine"


def test_rows_are_printed_as_they_finish_the_cheap_ones_first(
    rows: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    likewise.compare(*rows, methods=["anchored-linear", "nca", "cosine"], small=50, verbose=1)
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.endswith(" left)")]
    assert out == ""
    assert [line.split()[0] for line in lines] == [*2 * ["NCA"], *3 * ["cosine"], *2 * ["SimilarityLearner"]]
    assert "not run: " in lines[0]
    assert "mAP" in lines[2]
    assert lines[-1].endswith("(about 0 s left)")


def test_one_seed_is_one_result(rows: tuple[np.ndarray, np.ndarray]) -> None:
    runs = [likewise.compare(*rows, methods=["lda", "anchored-linear"], unseen=False, mixed=False) for _ in range(2)]
    scores = [[outcome.score for outcome in run.seen.outcomes] for run in runs if run.seen]
    assert scores[0] == scores[1]
    other = likewise.compare(*rows, methods=["lda"], unseen=False, mixed=False, random_state=1)
    assert other.seen
    assert other.seen.outcomes[0].score != scores[0][0]


def test_no_rival_loses_for_the_units_of_its_columns_alone() -> None:
    X, y = load_wine(return_X_y=True)
    comparison = likewise.compare(
        X, y, methods=["cosine", "lda", "nystroem-ridge", "anchored-linear"], unseen=False, mixed=False
    ).seen
    assert comparison is not None
    by_name = {outcome.name: outcome for outcome in comparison.outcomes}
    for name in ("lda", "nystroem-ridge"):
        assert by_name[name].remarks == ["columns are standardised first, as SimilarityLearner chooses to here"]
        assert by_name[name].score > 0.9
    assert not by_name["cosine"].remarks
    assert by_name["cosine"].score < 0.7


def test_large_data_is_sampled_with_a_remark(rows: tuple[np.ndarray, np.ndarray]) -> None:
    comparison = likewise.compare(*rows, methods=["cosine"], max_rows=100, unseen=False, mixed=False)
    assert comparison.n_rows in range(90, 111)
    assert comparison.remarks == [f"{comparison.n_rows} of 300 rows were drawn, by class; max_rows changes that"]
    assert comparison.remarks[0] in str(comparison).replace("\n", " ")


def test_sparse_rows_and_labels_of_text(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = rows
    names = np.array([f"digit {label}" for label in y])
    one = likewise.compare(X, y, methods=["cosine", "anchored-linear"], unseen=False, mixed=False)
    mixed = likewise.compare(sp.csr_matrix(X), names, methods=["anchored"], seen=False, unseen=False).mixed
    assert mixed
    assert not mixed.outcomes[0].failed
    same = likewise.compare(sp.csr_matrix(X), names, methods=["cosine", "anchored-linear"], unseen=False, mixed=False)
    assert one.seen
    assert same.seen
    for a, b in zip(one.seen.outcomes, same.seen.outcomes, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-3)


def test_few_classes_leave_the_second_table_out_with_a_remark(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = rows
    few = y < 3
    comparison = likewise.compare(X[few], y[few], methods=["cosine"])
    assert comparison.unseen is None
    assert "expected at least four classes of two or more rows, got 3" in comparison.remarks[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"methods": ["lda", "magic"]}, "methods has 'magic', which is not known: expected some of cosine, whitening"),
        ({"methods": []}, "methods is empty"),
        ({"splits": 0}, "splits=0 is below 1"),
        ({"test_size": 1.0}, r"test_size=1.0 is outside \(0, 1\)"),
        (
            {"seen": False, "unseen": False, "mixed": False},
            "seen, unseen and mixed are all False: expected at least one to be True",
        ),
    ],
)
def test_bad_options_get_a_sentence(
    rows: tuple[np.ndarray, np.ndarray], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(LikewiseError, match=sentence):
        likewise.compare(*rows, **options)


def test_nothing_left_to_compare_is_a_sentence() -> None:
    X, y = load_wine(return_X_y=True)
    with pytest.raises(LikewiseError, match=r"nothing is left to compare: .*classes"):
        likewise.compare(X, y, seen=False)
    with pytest.raises(LikewiseError, match="nothing is left to compare: none of the methods is in the"):
        likewise.compare(X, y, methods=["rca"], unseen=False, mixed=False)


def test_bad_data_gets_a_sentence_before_anything_is_fitted(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = rows
    with pytest.raises(LikewiseError, match="X has 300 rows and y 299 labels: expected one label per row"):
        likewise.compare(X, y[:-1])
    with pytest.raises(ValueError, match="X contains NaN"):
        likewise.compare(np.where(X > 15, np.nan, X), y)
    with pytest.raises(LikewiseError, match="y has one class only"):
        likewise.compare(X, np.zeros(300))


def test_names_and_labels_are_unique_and_oasis_takes_fewer_steps_where_they_are_dear() -> None:
    for methods in (seen_methods(), unseen_methods()):
        assert len({method.name for method in methods}) == len({method.label for method in methods}) == len(methods)
    oasis = next(method for method in seen_methods() if method.name == "oasis")
    cheap, dear = Size(1000, 64, 10, 3000), Size(1000, 2000, 10, 3000)
    assert (oasis.make(cheap, 0).n_steps, oasis.remark(cheap)) == (1_000_000, None)
    steps = oasis.make(dear, 0).n_steps
    assert 10_000 <= steps < 1_000_000
    assert oasis.remark(dear) == f"{steps:,} steps instead of the usual 1,000,000"


@pytest.mark.second
def test_every_method_runs_on_digits_and_the_order_is_the_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.rivals.compare.methods._OASIS_STEPS", 5_000)  # a million take as long as all others
    monkeypatch.setattr(likewise.rivals, "NeuralHead", partial(likewise.rivals.NeuralHead, steps=(40, 20)))
    X, y = load_digits(return_X_y=True)
    comparison = likewise.compare(X[:220], y[:220])
    for standing in comparison.standings.values():
        torchless = () if find_spec("torch") else ("neural", "neural-posterior")
        assert [o.error for o in standing.outcomes if o.failed and o.name not in torchless] == []
    assert comparison.seen
    assert comparison.unseen
    score = {outcome.name: outcome.score for outcome in comparison.seen.outcomes}
    assert score["cosine"] < score["ridge"] < min(score["anchored"], score["logistic"])
    assert score["lda"] < score["nystroem-lda"]
    assert set(comparison.seen.contests()) == {"linear", "kernel", "posterior"}
    unseen = {outcome.name: outcome.score for outcome in comparison.unseen.outcomes}
    assert unseen["lda"] < unseen["lda-input"]
    assert unseen["ridge"] < unseen["ridge-input"]


# Splits: every class in its share, something to find for every query, no row on both sides

class_sizes = st.lists(st.integers(1, 25), min_size=2, max_size=8)


@given(class_sizes, st.floats(0.05, 0.95), st.integers(0, 99))
def test_rows_are_split_by_class_and_every_query_has_something_to_find(
    sizes: list[int], share: float, seed: int
) -> None:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    if max(sizes) < 3:
        with pytest.raises(LikewiseError, match=f"the largest class of y has {max(sizes)} rows"):
            row_part(codes, share, np.random.default_rng(seed))
        return
    part = row_part(codes, share, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate([part.train, part.held])), np.arange(len(codes)))
    held = np.bincount(codes[part.held], minlength=len(sizes))
    for size, count in zip(sizes, held, strict=True):
        assert count == 0 if size < 3 else 2 <= count < size


def test_the_usual_share_is_held_out() -> None:
    codes = np.repeat(np.arange(5), 100)
    part = row_part(codes, 0.3, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(codes[part.held]), [30] * 5)


@given(st.lists(st.integers(1, 9), min_size=4, max_size=9), st.integers(0, 99))
def test_classes_are_on_one_side_only(sizes: list[int], seed: int) -> None:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    if sum(size > 1 for size in sizes) < 4:
        assert "expected at least four classes of two or more rows" in (class_obstacle(codes) or "")
        return
    assert class_obstacle(codes) is None
    part = class_part(codes, np.random.default_rng(seed))
    learned, searched = set(codes[part.train]), set(codes[part.held])
    assert not learned & searched
    assert len(learned | searched) == len(sizes)
    assert np.bincount(codes[part.held]).max() > 1
    assert sum(sizes[c] > 1 for c in learned) >= 2


def test_a_mixed_gallery_has_rows_of_taught_classes_and_of_others(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = rows
    standing = likewise.compare(X, y, methods=["cosine", "anchored"], seen=False, unseen=False, metric="ndcg@10").mixed
    assert standing
    part = standing.parts[0]
    assert set(y[part.train]) < set(y[part.held]) == set(y)
    assert not set(part.train) & set(part.held)
    cosine = standing.outcomes[0]
    Q = Cosine().fit(X).transform(X[part.held])
    expected = evaluate(Q, Q, y[part.held], metric="ndcg@10")
    np.testing.assert_allclose(cosine.values, expected.values)
    is_taught = np.isin(y[part.held], y[part.train])[expected.queries]
    assert cosine.figures["taught"] == pytest.approx(expected.values[is_taught].mean())
    assert cosine.figures["new"] == pytest.approx(expected.values[~is_taught].mean())
    assert standing.metric == "nDCG@10"
    assert "points of nDCG@10 over" in standing.recommendation() or "a tie" in standing.recommendation()
    assert standing.to_dict()["methods"][0]["nDCG@10_interval"]


@given(st.lists(st.integers(3, 25), min_size=4, max_size=8), st.integers(0, 99))
def test_half_of_the_classes_are_taught_and_all_are_searched(sizes: list[int], seed: int) -> None:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    part = mixed_part(codes, 0.3, np.random.default_rng(seed))
    assert len(np.unique(codes[part.train])) == (len(sizes) + 1) // 2
    assert len(np.unique(codes[part.held])) == len(sizes)
    assert not set(part.train) & set(part.held)
