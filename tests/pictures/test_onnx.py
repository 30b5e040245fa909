"""Any ONNX model: what it says about its input is followed, what it does not say comes from the parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from tests.pictures.conftest import contents  # noqa: E402

from likewise.errors import LikewiseError  # noqa: E402
from likewise.pictures import OnnxExtractor, extract_folder, load_extractor  # noqa: E402
from likewise.rows import FeatureStore  # noqa: E402

IMAGENET = {"mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225", "crop": "0.875"}
GREY = np.full((1, 50, 70, 3), 128, np.uint8)


def write(
    path: Path,
    shape: list[Any],
    kind: int = TensorProto.FLOAT,
    nodes: list[Any] | None = None,
    constants: tuple[Any, ...] = (),
    rank: int = 4,
    silent: bool = False,
    **facts: str,
) -> Path:
    """A model that returns its input, or the output of other nodes, and says how pictures are prepared or is silent."""
    facts = facts if silent else {**IMAGENET, **facts}
    nodes = nodes or [helper.make_node("Identity", ["x"], ["y"])]
    entry = helper.make_tensor_value_info("x", kind, shape)
    out = helper.make_tensor_value_info("y", kind, [f"d{i}" for i in range(rank)])
    graph = helper.make_graph(nodes, "g", [entry], [out], list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, facts)
    onnx.save(model, path)
    return path


def test_size_layout_and_normalisation_are_those_of_the_model(tmp_path: Path) -> None:
    extractor = OnnxExtractor(write(tmp_path / "m.onnx", ["n", 3, 8, 10]))
    row = extractor.transform(GREY)
    expected = (128 / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    np.testing.assert_allclose(row[0], expected, rtol=1e-5)  # a map comes out, and is averaged
    assert extractor.n_features_out() == 3


def test_channels_last_is_recognised(tmp_path: Path) -> None:
    extractor = OnnxExtractor(write(tmp_path / "m.onnx", ["n", 8, 10, 3]), mean=0, std=1)
    np.testing.assert_allclose(extractor.transform(GREY), np.full((1, 3), 128 / 255), rtol=1e-6)


def test_parameters_win_over_metadata_and_metadata_over_the_default(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8], mean="0.25", std="[0.5, 0.5, 0.25]")
    np.testing.assert_allclose(
        OnnxExtractor(path).transform(GREY)[0], (128 / 255 - 0.25) / np.array([0.5, 0.5, 0.25]), rtol=1e-5
    )
    np.testing.assert_allclose(OnnxExtractor(path, mean=0, std=1).transform(GREY)[0], [128 / 255] * 3, rtol=1e-6)


@pytest.mark.parametrize(
    ("nominal", "value"),
    [("NominalRange_0_255", 128.0), ("Normalized_0_1", 128 / 255), ("Normalized_1_1", 256 / 255 - 1),
     ("NominalRange_16_235", 16 + 128 * 219 / 255)],
)  # fmt: skip
def test_onnxs_own_range_metadata_is_followed(tmp_path: Path, nominal: str, value: float) -> None:
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8], silent=True, **{"Image.NominalPixelRange": nominal})
    np.testing.assert_allclose(OnnxExtractor(path, crop=1).transform(GREY)[0], [value] * 3, rtol=1e-4, atol=1e-5)


def test_bgr_models_get_bgr(tmp_path: Path) -> None:
    image = np.zeros((1, 9, 9, 3), np.uint8)
    image[..., 0] = 255
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8], **{"Image.BitmapPixelFormat": "Bgr8"})
    np.testing.assert_allclose(OnnxExtractor(path, mean=0, std=1).transform(image)[0], [0, 0, 1])


def test_bytes_go_in_as_bytes(tmp_path: Path) -> None:
    extractor = OnnxExtractor(write(tmp_path / "m.onnx", ["n", 3, 8, 8], TensorProto.UINT8, silent=True), crop=1)
    np.testing.assert_array_equal(extractor.transform(GREY), [[128] * 3])


def test_half_precision_models_run(tmp_path: Path) -> None:
    extractor = OnnxExtractor(write(tmp_path / "m.onnx", ["n", 3, 8, 8], TensorProto.FLOAT16), mean=0, std=1)
    np.testing.assert_allclose(extractor.transform(GREY), np.full((1, 3), 128 / 255), rtol=1e-3)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_fixed_batch_is_filled_up(tmp_path: Path, batch: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (7, 20, 20, 3)).astype(np.uint8)
    fixed = OnnxExtractor(write(tmp_path / "fixed.onnx", [batch, 3, 8, 8])).transform(images)
    free = OnnxExtractor(write(tmp_path / "free.onnx", ["n", 3, 8, 8])).transform(images)
    np.testing.assert_allclose(fixed, free, rtol=1e-6)


def test_flat_outputs_are_taken_as_they_are_and_of_tokens_the_one_asked_for(tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, 8, 8, 3)).astype(np.uint8)
    rows = {}
    for kind, target in (("tokens", [0, 64, 3]), ("flat", [0, 192])):
        shape = numpy_helper.from_array(np.array(target, np.int64), "shape")
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
        path = write(tmp_path / f"{kind}.onnx", ["n", 3, 8, 8], nodes=nodes, constants=(shape,), rank=len(target))
        for tokens in ("first", "mean"):
            rows[kind, tokens] = OnnxExtractor(path, tokens=tokens).transform(images)
    flat = rows["flat", "first"].reshape(2, 64, 3)
    np.testing.assert_array_equal(rows["flat", "mean"].reshape(2, 64, 3), flat)
    np.testing.assert_array_equal(rows["tokens", "first"], flat[:, 0])
    np.testing.assert_allclose(rows["tokens", "mean"], flat.mean(axis=1), rtol=1e-5, atol=1e-6)
    for options, words in (
        ({}, "the output y of the model is a sequence of tokens; expected tokens=first, the one that ViT, CLIP and "
         "DINO models pool, or tokens=mean, or another output"),
        ({"tokens": "all"}, "tokens='all'; expected first or mean"),
    ):  # fmt: skip
        with pytest.raises(LikewiseError) as caught:
            OnnxExtractor(tmp_path / "tokens.onnx", **options).transform(images)
        assert str(caught.value) == words


def test_a_model_of_any_size_takes_the_one_given(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", ["n", 3, "h", "w"])
    for size, shape in ((16, (16, 16)), ((8, 12), (8, 12))):
        extractor = OnnxExtractor(path, size=size)
        extractor.prepare()
        assert extractor._live_input.size == shape
    with pytest.raises(LikewiseError) as caught:
        OnnxExtractor(path).prepare()
    assert str(caught.value) == "the model takes pictures of any size; expected size in pixels, such as size=224"


def test_a_model_that_does_not_say_how_pictures_are_prepared_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8], silent=True)
    with pytest.raises(LikewiseError) as caught:
        OnnxExtractor(path, std=1).prepare()
    assert str(caught.value) == (
        "the model does not say how pictures are prepared: expected mean and crop (mean=0.485,0.456,0.406 "
        "std=0.229,0.224,0.225 crop=0.875 are those of many networks trained on ImageNet), or a "
        "preprocessor_config.json next to it"
    )


CLIP = {
    "crop_size": {"height": 8, "width": 8}, "do_center_crop": True, "do_convert_rgb": True, "do_normalize": True,
    "do_rescale": True, "do_resize": True, "image_mean": [0.48, 0.45, 0.4], "image_std": [0.26, 0.25, 0.27],
    "image_processor_type": "CLIPImageProcessor", "resample": 3, "rescale_factor": 1 / 255,
    "size": {"shortest_edge": 8},
}  # fmt: skip
SIGLIP = {**CLIP, "do_center_crop": None, "crop_size": None, "size": {"height": 8, "width": 8}, "resample": 2}
DINO = {**CLIP, "size": {"shortest_edge": 10}}


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (CLIP, {"crop": 1.0, "stretch": False}),
        (SIGLIP, {"crop": 1.0, "stretch": True}),
        (DINO, {"crop": 0.8, "stretch": False}),
        ({**CLIP, "size": 8, "crop_size": 8}, {"crop": 1.0, "stretch": False}),
        ({**SIGLIP, "size": 8}, {"crop": 1.0, "stretch": True}),
        ({**SIGLIP, "do_normalize": False}, {"crop": 1.0, "stretch": True, "mean": 0, "std": 1}),
        ({**SIGLIP, "do_rescale": False, "resample": 3},
         {"crop": 1, "stretch": True, "mean": np.divide(CLIP["image_mean"], 255),
          "std": np.divide(CLIP["image_std"], 255)}),
    ],
)  # fmt: skip
def test_pictures_are_prepared_as_a_preprocessor_config_says(
    tmp_path: Path, config: dict[str, Any], options: dict[str, Any]
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 30, 40, 3)).astype(np.uint8)
    options = {"mean": CLIP["image_mean"], "std": CLIP["image_std"], **options}
    by_hand = OnnxExtractor(write(tmp_path / "m.onnx", ["n", 3, 8, 8], silent=True), **options).transform(images)
    (tmp_path / "repository" / "onnx").mkdir(parents=True)
    path = write(tmp_path / "repository" / "onnx" / "m.onnx", ["n", 3, 8, 8])  # the file is believed before the model
    (tmp_path / "repository" / "preprocessor_config.json").write_text(json.dumps(config))
    extractor = OnnxExtractor(path)
    tolerance = 0.02 if config["resample"] == 2 else 1e-5  # bilinear, and by hand bicubic
    np.testing.assert_allclose(extractor.transform(images), by_hand, rtol=1e-5, atol=tolerance)
    extractor.save(tmp_path / "e.safetensors")
    path.unlink()
    loaded = load_extractor(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(loaded.transform(images), extractor.transform(images))
    assert loaded.checksum() == extractor.checksum()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"max_num_patches": 256}, "max_num_patches may change pixels, and is not known"),
        ({"crop_pct": 0.9, "do_pad": True}, "crop_pct and do_pad may change pixels, and is not known"),
        ({"do_center_crop": False}, "size.shortest_edge without do_center_crop gives pictures of several sizes"),
        (
            {"crop_size": {"height": 8, "width": 4}},
            "its size and crop_size are of different shapes, or it does not resize",
        ),
    ],
)
def test_what_a_preprocessor_config_says_and_is_not_understood_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**CLIP, **change}))
    with pytest.raises(LikewiseError) as caught:
        OnnxExtractor(write(tmp_path / "m.onnx", ["n", 3, 8, 8])).prepare()
    path = tmp_path / "preprocessor_config.json"
    assert str(caught.value) == f"{path} cannot be followed: {reason}; pass its settings, and rename it"


def test_stretching_sees_the_sides_that_a_square_loses(tmp_path: Path) -> None:
    image = np.zeros((1, 20, 60, 3), np.uint8)
    image[:, :, 20:40] = 255
    path = write(tmp_path / "m.onnx", ["n", 3, 12, 12], crop="1")
    square, whole = (OnnxExtractor(path, mean=0, std=1, stretch=stretch).transform(image) for stretch in (False, True))
    np.testing.assert_allclose(square, 1, atol=0.05)
    np.testing.assert_allclose(whole, 1 / 3, atol=0.05)
    with_metadata = write(tmp_path / "metadata.onnx", ["n", 3, 12, 12], crop="1", stretch="true")
    np.testing.assert_array_equal(OnnxExtractor(with_metadata, mean=0, std=1).transform(image), whole)


def test_of_several_outputs_one_row_a_picture_is_taken_by_its_name_or_as_asked_for(tmp_path: Path) -> None:
    def with_outputs(*names: str) -> Path:
        nodes = [helper.make_node("Identity", ["x"], ["y"]), *(helper.make_node("Neg", ["x"], [n]) for n in names)]
        model = onnx.load(write(tmp_path / "m.onnx", ["n", 3, 8, 8], nodes=nodes))
        for name in names:
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, 8, 8]))
        onnx.save(model, tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    plain, chosen = (OnnxExtractor(with_outputs("z"), output=name).transform(GREY) for name in ("y", "z"))
    np.testing.assert_array_equal(plain, -chosen)
    path = with_outputs("pooler_output", "image_embeds")
    extractor = OnnxExtractor(path)
    np.testing.assert_array_equal(extractor.transform(GREY), chosen)
    assert extractor._live_output == "image_embeds"
    with pytest.raises(LikewiseError) as caught:
        OnnxExtractor(with_outputs("z")).prepare()
    assert str(caught.value) == "the model has the outputs y, z; expected output, the name of one of them"


def test_the_saved_extractor_does_not_need_the_model_file(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8])
    extractor = OnnxExtractor(path, mean=0.1)
    row = extractor.transform(GREY)
    extractor.save(tmp_path / "e.safetensors")
    path.unlink()
    loaded = load_extractor(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(loaded.transform(GREY), row)
    assert loaded.checksum() == extractor.checksum()


def test_weights_in_another_file_are_included(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.full((1, 3, 8, 8), 2, np.float32), "w")
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8], nodes=nodes, constants=(weight,))
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    extractor = OnnxExtractor(path, mean=0, std=1)
    extractor.save(tmp_path / "e.safetensors")
    (tmp_path / "w.bin").unlink()
    np.testing.assert_allclose(load_extractor(tmp_path / "e.safetensors").transform(GREY), [[256 / 255] * 3], rtol=1e-6)


def test_a_run_tells_one_model_file_from_another(tmp_path: Path, photos: Path) -> None:
    first, other = (write(tmp_path / f"{size}.onnx", ["n", 3, size, size]) for size in (8, 9))
    store = tmp_path / "s.features"
    extract_folder(photos, store, f"onnx:{first}")
    before = contents(store)
    with pytest.raises(LikewiseError, match="was made by another extractor"):
        extract_folder(photos, store, f"onnx:{other}")
    first.rename(tmp_path / "moved.onnx")
    assert extract_folder(photos, store, f"onnx:{tmp_path / 'moved.onnx'}").n_new == 0
    assert contents(store) == before
    assert len(FeatureStore.open(store)) == 12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 9}, "size=9 does not match the model; expected 8 × 8 pixels"),
        ({"size": -1}, "size=-1 is not a size"),
        ({"stretch": []}, "stretch=[] is neither True nor False"),
        ({"output": ["y"]}, "output=['y'] is not an output of the model"),
        ({"size": (1, 2, 3)}, "size=(1, 2, 3) is not a size"),
        ({"mean": "a"}, "mean='a' is not a normalisation; expected one number, or three for R, G and B"),
        ({"mean": (1, 2)}, "mean=(1, 2) is not a normalisation"),
        ({"std": 0}, "std=[0.0, 0.0, 0.0]; expected positive numbers"),
        ({"crop": 0}, "crop=0 is not a share of the image; expected a number above 0 and at most 1"),
        ({"crop": "x"}, "crop='x' is not a share"),
        ({"output": "no"}, "output='no' is not an output of the model; it has y"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8])
    with pytest.raises(LikewiseError) as caught:
        OnnxExtractor(path, **options).transform(GREY)
    assert words in str(caught.value)


def test_models_that_do_not_take_images_are_refused(tmp_path: Path) -> None:
    for name, shape, words in (
        ("text.onnx", ["n", 5], "expected one input of images"),
        ("grey.onnx", ["n", 1, 8, 8], "the model takes 1 channels; expected 3"),
    ):
        with pytest.raises(LikewiseError, match=words):
            OnnxExtractor(write(tmp_path / name, shape, rank=len(shape))).transform(GREY)
    path = write(tmp_path / "int.onnx", ["n", 3, 8, 8], TensorProto.INT64)
    with pytest.raises(LikewiseError, match="expected float, float16, double or uint8 images"):
        OnnxExtractor(path).transform(GREY)


def test_other_files_than_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="does not exist"):
        OnnxExtractor(tmp_path / "none.onnx").transform(GREY)
    with pytest.raises(LikewiseError, match="is not a file"):
        OnnxExtractor(tmp_path).transform(GREY)
    (tmp_path / "text.onnx").write_bytes(b"\xff hello")
    with pytest.raises(LikewiseError, match="is not an ONNX file"):
        OnnxExtractor(tmp_path / "text.onnx").transform(GREY)
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(LikewiseError, match="not an ONNX model that onnxruntime can run"):
        OnnxExtractor(tmp_path / "empty.onnx").transform(GREY)


def test_features_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Log", ["x"], ["y"])]
    path = write(tmp_path / "m.onnx", ["n", 3, 8, 8], nodes=nodes)
    with pytest.raises(LikewiseError, match="features contain NaN or infinity: check size, mean and std of the model"):
        OnnxExtractor(path, mean=1, std=1).transform(GREY)
