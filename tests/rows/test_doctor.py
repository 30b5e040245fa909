"""The doctor finds each illness it knows, names it, and finds nothing in healthy data."""

from __future__ import annotations

import json
import re
import tomllib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise import SLR
from likewise.errors import LikewiseError
from likewise.rows import doctor
from likewise.rows.doctor import examine

N, D, K = 120, 6, 4


@pytest.fixture
def healthy() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)) + 1.0, np.arange(N) % K


def _codes(X: object, y: object) -> list[str]:
    """Codes found, the same for the sparse form of X as for the dense one."""
    dense = [finding.code for finding in examine(X, y)]
    assert [finding.code for finding in examine(sp.csr_array(X), y)] == dense
    return dense


def test_nothing_is_found_in_healthy_data(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    findings = examine(*healthy)
    assert len(findings) == 0
    assert not findings.serious
    assert (findings.n_rows, findings.n_columns, findings.n_classes, findings.rank) == (N, D, K, D)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_serious(healthy: tuple[np.ndarray, np.ndarray], value: float) -> None:
    X, y = healthy
    X[3, 1] = X[7, 1] = X[7, 2] = value
    findings = examine(X, y)
    assert findings.serious
    assert findings.findings[0].what == "there is NaN or inf in 2 rows and 2 columns"
    assert findings.rank == D
    assert _codes(X, y) == ["not-finite"]


def test_rows_that_are_all_not_finite_do_not_stop_it(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    _, y = healthy
    assert "not-finite" in _codes(np.full((N, D), np.nan), y)


def test_zero_rows_are_found_and_not_counted_as_duplicates(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = healthy
    X[[2, 5]] = 0.0
    X[5, 0] = -0.0
    assert _codes(X, y) == ["zero-rows"]
    assert examine(X, y).findings[0].what == "2 rows are all zero"


def test_duplicates_are_found_and_conflicts_told_apart(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = healthy
    X[4] = X[0]
    assert y[4] == y[0]
    assert _codes(X, y) == ["duplicate-rows"]
    X[1] = X[0]
    assert _codes(X, y) == ["conflicting-duplicates", "duplicate-rows"]
    conflict = examine(X, y).findings[0]
    assert conflict.severity == "serious"
    assert conflict.what == "3 rows equal a row with another label"


def test_scale_of_rows_and_columns(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = healthy
    assert _codes(X * np.geomspace(1, 1000, N)[:, None], y)[0] == "row-scale"
    assert _codes(X * np.array([1, 1, 1, 1, 1, 5e-4]), y) == ["column-scale"]


def test_columns_without_content(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = healthy
    X[:, 1] = X[:, 0]
    assert _codes(X, y) == ["rank-deficient", "duplicate-columns"]
    X[:, 2] = 0.0
    assert _codes(X, y) == ["rank-deficient", "constant-columns", "duplicate-columns"]


def test_the_label_among_the_features_is_serious(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = healthy
    X[:, 3] = 2.0 * y + 1.0
    assert _codes(X, y) == ["telling-columns"]
    assert _codes(X, [f"class {label}" for label in y]) == ["telling-columns"]
    X[0, 3] += 0.1
    assert _codes(X, y) == []


def test_rank_and_condition_number(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = healthy
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    X = (U * np.array([1, 1, 1, 1, 1, 1e-5])) @ Vt
    findings = examine(X, y)
    assert "ill-conditioned" in findings
    assert findings.condition == pytest.approx(1e5, rel=1e-3)


def test_fewer_rows_than_columns_interpolate() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 30)), np.arange(20) % 4
    findings = examine(X, y)
    assert _codes(X, y) == ["interpolates"]
    assert findings.rank == 20
    assert "adapting changes nothing" in findings.findings[0].effect


def test_fewer_rows_than_columns_but_of_lower_rank_do_not_interpolate() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 5)) @ rng.normal(size=(5, 30))
    assert _codes(X, np.arange(20) % 4) == ["rank-deficient"]


@pytest.mark.parametrize(
    ("y", "codes"),
    [
        (None, ["no-labels"]),
        (["a"] * N, ["one-class"]),
        (np.arange(N), ["all-distinct"]),
        (np.arange(N) % 2, ["two-classes"]),
        (["rare"] + ["a", "b", "c"] * 39 + ["a", "b"], ["single-classes", "imbalance"]),
        (["a"] * 110 + ["b"] * 5 + ["c"] * 5, ["imbalance"]),
        (["Cat", "cat ", "dog"] * 40, ["label-spelling"]),
        (["", "a", "b", "c"] * 30, ["unlabelled"]),
        ([""] * N, ["unlabelled"]),
        (np.arange(N) % 4 - 1, ["unlabelled"]),
    ],
)
def test_labels(healthy: tuple[np.ndarray, np.ndarray], y: object, codes: list[str]) -> None:
    assert _codes(healthy[0], y) == codes


def test_the_worst_comes_first_and_every_finding_says_what_to_do(healthy: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = healthy
    X[0], X[1] = np.nan, 0.0
    X[:, 2] = X[:, 1]
    findings = examine(X, np.where(y == 0, 0, 1))
    order = [("serious", "warning", "note").index(finding.severity) for finding in findings]
    assert order == sorted(order)
    assert len(set(order)) == 3
    for finding in findings:
        assert finding.effect.endswith((".", "?"))
        assert finding.remedy.endswith((".", "?"))
    assert json.loads(json.dumps(findings.to_dict()))["serious"] is True


@settings(max_examples=25, deadline=None)
@given(
    st.integers(3, 40),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([np.float64, np.float32]),
    st.integers(0, 99),
)
def test_the_rank_is_the_one_that_fit_finds(n: int, d: int, r: int, dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, r)) @ rng.normal(size=(r, d))).astype(dtype)
    y = np.arange(n) % 2
    assert examine(X, y).rank == SLR(rank=None, max_iter=1).fit(X, y).rank_


def test_blocks_and_one_piece_agree(healthy: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = healthy
    X[0, 0], X[1], X[4] = np.nan, 0.0, X[2]
    X[:, 3] *= 1e5
    whole = examine(X, y).to_dict()
    monkeypatch.setattr("likewise.rows.doctor._BLOCK", 7 * D)
    pieces = examine(X, y).to_dict()
    assert pieces["condition"] == pytest.approx(whole.pop("condition"))
    pieces.pop("condition")
    assert pieces == whole


def test_memory_stays_at_a_block_for_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(40_000, 64)).astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    monkeypatch.setattr("likewise.rows.doctor._BLOCK", 64_000)
    tracemalloc.start()
    examine(X, np.arange(len(X)) % 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # X as float64 would be 20 MB; a block of 1,000 rows is half a MB, and a row costs some 100 bytes
    assert peak < 10e6


def test_a_wide_matrix_is_measured_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.rows.doctor._LARGEST_GRAM", 20)
    monkeypatch.setattr("likewise.rows.doctor._SAMPLE", 10)
    rng = np.random.default_rng(0)
    findings = examine(rng.normal(size=(40, 30)), np.arange(40) % 4)
    assert (findings.rank, findings.rank_is_exact, findings.condition) == (10, False, None)
    assert len(findings) == 0


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (np.zeros((0, 3)), None, "X has shape (0, 3): expected a matrix with at least one row and one column"),
        (np.zeros(3), None, "X has shape (3,): expected a matrix with at least one row and one column"),
        (np.zeros((2, 2), dtype=complex), None, "X has dtype complex128: expected real numbers"),
        (np.array([["a"]]), None, "X has dtype <U1: expected real numbers"),
        (np.zeros((2, 2)), [1], "y has shape (1,): expected (2,), a label for each row of X"),
    ],
)
def test_what_cannot_be_examined_gets_a_sentence(X: np.ndarray, y: object, sentence: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        examine(X, y)
    assert str(caught.value) == sentence


def test_one_row_is_examined() -> None:
    assert "one-class" in examine(np.ones((1, 3)), ["a"])


ROOT = Path(__file__).parents[2]
LINES = tomllib.loads((ROOT / "src/likewise/rows/choosing.toml").read_text())["line"]
X = np.random.default_rng(0).normal(size=(60, 4))


@pytest.mark.parametrize(
    ("rows", "y", "expected"),
    [
        (X, np.arange(60) % 3, ["SimilarityLearner()", 'SimilarityLearner(settings={"temperature": "auto"})']),
        (X, None, ["Teacher", "RelevanceLearner()"]),
        (X, np.arange(60), ["RelevanceLearner()", "Relevance"]),
        (X, np.arange(60) % 2, ["a classifier of scikit-learn"]),
        (sp.csr_array(X), np.arange(60) % 3, ["CSR rows"]),
    ],
)
def test_lines_follow_from_the_data(rows: object, y: object, expected: list[str]) -> None:
    message = " ".join(line.use for line in examine(rows, y).choosing).replace("`", "")
    assert all(use in message for use in expected)


def test_rows_beyond_the_memory_limit_are_pointed_to_the_line_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MANY_BYTES", 100)
    assert any("More rows than memory" in line.have for line in examine(X, np.arange(60) % 3).choosing)


def test_numbers_are_those_of_the_page_and_of_its_chart() -> None:
    page = (ROOT / "docs" / "choosing.md").read_text()
    for line in examine(X, None).choosing:
        assert f"| {line.number} | {line.have} | {line.use} |" in page
    chart = (ROOT / "docs" / "images" / "choosing.svg").read_text()
    drawn = dict(re.findall(r'class="use" data-line="(\d+)">([^<]+)<', chart))
    assert sorted(map(int, drawn)) == list(range(1, 10))
    for number, name in drawn.items():
        assert name in LINES[int(number) - 1]["use"].replace("`", ""), name


def test_every_word_that_brings_a_line_is_known() -> None:
    known = {"labels", "no-labels", "sparse", "many-rows", *doctor._ADVICE}
    assert {word for line in LINES for word in line["when"]} <= known
