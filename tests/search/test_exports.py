"""Exports: other engines give what the index gives, and an encoder gives the vectors of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from tests.search.conftest import MODELS, Digits

from likewise import SLR, RelevanceLearner, SimilarityLearner, fit_map
from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.rivals import (
    OASIS,
    RCA,
    Cosine,
    Kernelised,
    LDAPosterior,
    LogisticPosterior,
    RidgeOneHot,
    SVMPosterior,
    Whitening,
    WithInput,
)
from likewise.rows.relevance import Relevance
from likewise.search import Index, LearnedEncoder
from likewise.search.exports import export, query_map
from likewise.teach import Teacher

MORE: dict[str, Any] = {
    "plain cosine": Cosine(),
    "kernel and posterior": SimilarityLearner(
        settings={"gamma": 1.0, "ridge": 0.1, "adaptation": 0.0, "temperature": 0.05}
    ),
    "unseen classes": SimilarityLearner(settings={"share": 0.0}),
    "standardised": SimilarityLearner(
        scaling="standard", settings={"gamma": 1.0, "ridge": 0.1, "adaptation": 0.0, "geometry": "lda"}
    ),
    "reduced": SimilarityLearner(
        settings={"whitening_width": 20, "gamma": 0.0, "ridge": 0.1, "adaptation": 0.0, "geometry": "one-hot"}
    ),
    "distance": RCA(shrinkage=0.1, metric="distance"),
    "whitening": Whitening(shrinkage=0.1),
    "ridge": RidgeOneHot(alpha=0.1),
    "oasis": OASIS(C=0.1, n_steps=2000),
    "logistic": LogisticPosterior(C=0.1, temperature=1.0),
    "lda posterior": LDAPosterior(shrinkage=0.1, temperature=1.0),
    "svm": SVMPosterior(C=10.0, width=1.0, temperature=0.1),
    "with input": WithInput(weight=0.5),
    "behind a kernel": Kernelised("ridge", width=1.0),
}


def assert_the_graph_agrees(model: Any, rows: np.ndarray) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    rows = np.vstack([rows, np.zeros_like(rows[:1])]).astype(np.float32)
    sides = session.run(["query", "gallery"], {"rows": rows})
    expected = model.transform_query(rows.astype(np.float64)), model.transform(rows.astype(np.float64))
    for ours, theirs in zip(expected, sides, strict=True):
        size = max(1.0, float(np.abs(ours).max()))
        np.testing.assert_allclose(theirs / size, ours / size, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_of_a_model_gives_both_its_sides(fitted: dict[str, Any], digits: Digits, name: str) -> None:
    assert_the_graph_agrees(fitted[name], digits[2][:200])


@pytest.mark.parametrize("name", MORE)
def test_the_graph_of_a_baseline_gives_both_its_sides(digits: Digits, name: str) -> None:
    X, y, G, _ = digits
    assert_the_graph_agrees(MORE[name].fit(X[:300].astype(np.float32), y[:300]), G[:200])


def test_two_classes_have_a_graph_too(digits: Digits) -> None:
    X, y, G, _ = digits
    two = y < 2
    model = SimilarityLearner(kernel="linear", random_state=0).fit(X[two], y[two])
    assert_the_graph_agrees(model, G[:50])


@pytest.mark.parametrize("name", ["anchored", "bilinear", "kernel"])
def test_a_taught_model_has_a_graph_too(fitted: dict[str, Any], digits: Digits, name: str) -> None:
    X, y, G, _ = digits
    teacher = Teacher(Index.build(fitted[name], X[:300].astype(np.float32)))
    for item in range(20):
        teacher.label(item, int(y[item]))
    assert_the_graph_agrees(teacher.learn().model, G[:100])


def test_two_widths_are_searched_but_have_no_graph_of_one_input(digits: Digits) -> None:
    X, y, G, _ = digits
    relevance = Relevance((y[:200, None] == y[200:400]) * 1.0)
    model = RelevanceLearner().fit(X[:200], relevance, gallery=X[200:400, :32])
    index = Index.build(model, G[:100, :32])
    expected = np.argsort(-model.similarity(X[:9], G[:100, :32]), axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(index.search(X[:9], k=5).ids, expected)
    with pytest.raises(LikewiseError, match="queries have 64 numbers and the gallery 32: a row of the gallery cannot"):
        index.search(rows=[0])
    with pytest.raises(LikewiseError, match="has sides of 64 and 32 columns: an ONNX graph has one input"):
        model.to_onnx()
    with pytest.raises(LikewiseError, match="is not bilinear in raw rows"):
        query_map(model)


def test_a_model_that_cannot_be_written_is_named() -> None:
    class Odd(SimilarityModel):
        def fit(self, X: Any, y: Any) -> Odd:
            self.n_features_in_ = 3
            return self

    with pytest.raises(LikewiseError, match="Odd has no ONNX export: it does not implement _write_onnx"):
        Odd().fit(None, None).to_onnx()
    with pytest.raises(NotFittedError):
        Odd().to_onnx()


def test_a_map_between_spaces_of_one_width_has_a_graph(digits: Digits) -> None:
    X = digits[0][:200]
    assert_the_graph_agrees(fit_map(X, X[:, ::-1] + 1.0, alpha=0.1), X[:50])
    with pytest.raises(LikewiseError, match="the map is between spaces of 64 and 32 columns: an ONNX graph has one"):
        fit_map(X, X[:, :32], alpha=0.1).to_onnx()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_knows_whether_its_sides_are_equal(fitted: dict[str, Any], digits: Digits, name: str) -> None:
    model, rows = fitted[name], digits[2][:50]
    query, gallery = model.transform_query(rows), model.transform(rows)
    assert model.symmetric == (query.shape == gallery.shape and np.array_equal(query, gallery))


def test_a_bilinear_similarity_folds_into_the_query(fitted: dict[str, Any], digits: Digits) -> None:
    """A gallery of raw rows in some inner-product engine is searched without indexing it again."""
    X, _, G, _ = digits
    index = Index.build(fitted["bilinear"], G)
    S = (X[:20] @ query_map(fitted["bilinear"])) @ G.T
    np.testing.assert_allclose(index.search(X[:20], k=10).scores, -np.sort(-S, axis=1)[:, :10], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cosine", "kernel", "posterior", "euclid"])
def test_any_other_says_that_its_gallery_must_be_transformed(fitted: dict[str, Any], name: str) -> None:
    with pytest.raises(LikewiseError, match="is not bilinear in raw rows and has no query_map: its gallery must be"):
        query_map(fitted[name])


@pytest.mark.parametrize("approximate", [False, "hnsw"])
def test_faiss_reads_what_was_written(index: Index, tmp_path: Path, approximate: Any) -> None:
    faiss = pytest.importorskip("faiss")
    index = Index.build(index.model, index.raw, approximate=approximate)
    read = faiss.read_index(str(export(index, tmp_path / "a.faiss")))
    Q = np.ascontiguousarray(index.model.transform_query(index.raw[:20]))
    result, expected = read.search(Q, 10)[1], index.search(index.raw[:20], k=10).ids
    assert np.mean(result == expected) > (0.95 if approximate else 0.99)


def test_numpy_reads_vectors_and_ids(fitted: dict[str, Any], digits: Digits, tmp_path: Path) -> None:
    index = Index.build(fitted["lda"], digits[2][:3], ["x", "yy", "z"])
    with np.load(export(index, tmp_path / "a.npz"), allow_pickle=False) as pair:
        np.testing.assert_array_equal(pair["vectors"], index.vectors)
        assert pair["ids"].tolist() == ["x", "yy", "z"]


def test_an_unknown_ending_is_named(index: Index, tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match=r"a\.xls ends with \.xls; expected \.parquet, \.arrow, \.faiss, \.npz or"):
        export(index, tmp_path / "a.xls")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_arrow_reads_ids_vectors_and_metadata(
    fitted: dict[str, Any], digits: Digits, tmp_path: Path, suffix: str
) -> None:
    pa = pytest.importorskip("pyarrow")

    items = {"id": ["x", "it's", "z"], "label": ["one", None, 3], "path": ["a.jpg", "b.jpg", None]}
    index = Index.build(fitted["lda"], digits[2][:3], items)
    path = export(index, tmp_path / f"a{suffix}")
    table = pa.parquet.read_table(path) if suffix == ".parquet" else pa.ipc.open_file(path).read_all()
    assert table.schema.field("vector").type == pa.list_(pa.float32(), index.vectors.shape[1])
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), index.vectors)
    rest = table.drop(["vector"]).to_pydict()
    assert rest == {"id": ["x", "it's", "z"], "label": ["one", None, "3"], "path": ["a.jpg", "b.jpg", None]}


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_batches_of_a_file_are_all_rows_in_order(
    index: Index, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")

    monkeypatch.setattr("likewise.search.exports._BATCH", 100)
    path = export(index, tmp_path / f"a{suffix}")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    parts = pa.parquet.ParquetFile(path) if suffix == ".parquet" else pa.ipc.open_file(path)
    count = parts.num_row_groups if suffix == ".parquet" else parts.num_record_batches
    assert count == -(-len(index) // 100)
    table = parts.read() if suffix == ".parquet" else parts.read_all()
    assert table["id"].to_pylist() == index.ids.tolist()


def test_a_file_that_cannot_be_finished_leaves_the_old_one(index: Index, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = export(index, tmp_path / "a.parquet")
    before = path.read_bytes()
    index.items.ids[5:6] = 0
    object.__setattr__(index.items, "ids", np.array(["a", 7, None] * len(index), dtype=object)[: len(index)])
    with pytest.raises(Exception, match="Expected bytes, got a 'int' object"):
        export(index, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.parquet"]


TEXTS = [f"{one} and {two}" for one in ("red", "green", "blue") for two in ("pea", "bean", "leek", "kale", "corn")]
LABELS = np.repeat([0, 1, 2], 5)


class Hashed:
    """An encoder as sentence-transformers are, without any file."""

    def __init__(self) -> None:
        self.options: dict[str, object] = {}

    def encode(self, sentences: list[str], **options: object) -> np.ndarray:
        self.options = options
        return HashingVectorizer(n_features=16, norm="l2").transform(sentences).toarray().astype(np.float32)


class TwoSided(Hashed):
    """As recent ones are: queries have a prompt of their own."""

    def encode_query(self, sentences: list[str]) -> np.ndarray:
        return self.encode([f"query: {text}" for text in sentences])


@pytest.fixture(scope="module")
def model() -> SLR:
    return SLR(rank=2, random_state=0).fit(Hashed().encode(TEXTS), LABELS)


def test_vectors_are_those_of_the_model(model: SLR) -> None:
    learned, rows = LearnedEncoder(model, Hashed()), Hashed().encode(TEXTS)
    np.testing.assert_allclose(learned.encode(TEXTS), model.transform(rows), rtol=1e-6)
    np.testing.assert_allclose(learned.encode_document(TEXTS), model.transform(rows), rtol=1e-6)
    np.testing.assert_allclose(learned.encode_query(TEXTS), model.transform_query(rows), rtol=1e-6)
    S = learned.similarity(learned.encode_query(TEXTS), learned.encode(TEXTS))
    np.testing.assert_allclose(S, model.similarity(rows, rows), rtol=1e-4, atol=1e-4)


def test_one_text_is_one_vector(model: SLR) -> None:
    learned = LearnedEncoder(model, Hashed())
    np.testing.assert_allclose(learned.encode(TEXTS[0]), learned.encode(TEXTS)[0], rtol=1e-5)
    assert learned.similarity(learned.encode_query(TEXTS[0]), learned.encode(TEXTS)).shape == (1, len(TEXTS))


def test_a_prompt_and_options_of_the_encoder_are_kept(model: SLR) -> None:
    encoder = TwoSided()
    learned = LearnedEncoder(model, encoder)
    prompted = model.transform_query(encoder.encode_query(TEXTS))
    np.testing.assert_allclose(learned.encode_query(TEXTS), prompted, rtol=1e-6)
    learned.encode(TEXTS, batch_size=4)
    assert encoder.options == {"batch_size": 4}


def test_what_is_no_encoder_is_said(model: SLR) -> None:
    with pytest.raises(LikewiseError, match="encoder is a list without encode; expected one that has it"):
        LearnedEncoder(model, [])

    class Flat:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.ones(len(texts))

    with pytest.raises(LikewiseError, match=r"encoder gives shape \(15,\); expected one vector per text"):
        LearnedEncoder(model, Flat()).encode(TEXTS)
