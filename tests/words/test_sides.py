"""A text tower in ONNX: in a tiny pair, a phrase is the mean of the rows of its words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

from likewise.errors import FileFormatError, LikewiseError  # noqa: E402
from likewise.rivals import Cosine  # noqa: E402
from likewise.search import Index  # noqa: E402
from likewise.words.search import Wording, Words, text_side  # noqa: E402
from likewise.words.sides import OnnxTowers  # noqa: E402

WORDS = ["[PAD]", "[UNK]", "dog", "cat", "beach"]
ROWS = np.eye(len(WORDS), 4, k=-1, dtype=np.float32)  # of unknown words and of three known ones


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    path = tmp_path_factory.mktemp("towers") / "tokenizer.json"
    words.save(str(path))
    return path


def tower(path: Path, pooled: bool, length: int | str = "length", kind: int = TensorProto.INT64) -> Path:
    """A text model: the rows of the tokens, or their sum over the phrase."""
    nodes = [helper.make_node("Gather", ["rows", "input_ids"], ["tokens"])]
    if pooled:
        nodes.append(helper.make_node("ReduceSum", ["tokens", "axis"], ["summed"], keepdims=0))
    shape, name = (["n", 4], "summed") if pooled else (["n", length, 4], "tokens")
    graph = helper.make_graph(
        nodes,
        "text",
        [helper.make_tensor_value_info("input_ids", kind, ["n", length])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(ROWS, "rows"), numpy_helper.from_array(np.array([1]), "axis")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.mark.parametrize(("pooled", "length", "kind"), [(True, "length", 7), (False, "length", 7), (True, 5, 6)])
def test_a_phrase_finds_its_picture(
    tokenizer: Path, tmp_path: Path, pooled: bool, length: int | str, kind: int
) -> None:
    side = OnnxTowers(tower(tmp_path / "text.onnx", pooled, length, kind), tokenizer)
    pictures = side.pictures(np.array([[0, 3, 0, 3], [0, 0, 5, 0]], np.float32))  # a dog on a beach, a cat
    scores = side.phrases(["dog beach", "cat"]) @ pictures.T
    np.testing.assert_allclose(scores, np.eye(2), atol=1e-6)
    np.testing.assert_array_equal(side.sentences(["cat"]), side.phrases(["cat"]))


def test_a_tower_of_another_width_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    side = OnnxTowers(tower(tmp_path / "text.onnx", True), tokenizer)
    with pytest.raises(LikewiseError, match=r"makes rows of 4 numbers and pictures have 1280: expected the text tower"):
        side.pictures(np.ones((1, 1280), np.float32))


def test_other_files_than_a_text_model_and_a_tokenizer_are_refused(tokenizer: Path, tmp_path: Path) -> None:
    model = tower(tmp_path / "text.onnx", True)
    with pytest.raises(LikewiseError, match=r"nowhere\.json does not exist"):
        OnnxTowers(model, tmp_path / "nowhere.json")
    with pytest.raises(LikewiseError, match=r"nowhere\.onnx does not exist"):
        OnnxTowers(tmp_path / "nowhere.onnx", tokenizer)
    with pytest.raises(FileFormatError, match="is not an ONNX model"):
        OnnxTowers(tokenizer, tokenizer)
    with pytest.raises(FileFormatError, match=r"is not a tokenizer\.json"):
        OnnxTowers(model, model)
    with pytest.raises(
        LikewiseError, match="has the input 'input_ids', which takes no token ids: expected a text model"
    ):
        OnnxTowers(_picture_tower(tmp_path / "picture.onnx"), tokenizer)


def _picture_tower(path: Path) -> Path:
    entry, out = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("input_ids", "out"))
    graph = helper.make_graph([helper.make_node("Identity", ["input_ids"], ["out"])], "picture", [entry], [out])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def test_an_index_of_the_other_tower_is_searched_by_words(tokenizer: Path, tmp_path: Path) -> None:
    X = np.array([[0, 3, 0, 3], [0, 0, 5, 0], [0, 0.1, 5, 0]], np.float32)
    index = Index.build(Cosine().fit(X), X)
    side = text_side(index, f"onnx:{tower(tmp_path / 'text.onnx', True)}", tokenizer)
    assert Words(index, side).search(Wording.of(["dog beach"]), 1).rows.tolist() == [0]
    assert Words(index, side).search(Wording.of(["cat"]), 3).rows.tolist() == [1, 2, 0]
