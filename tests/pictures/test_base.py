"""The contract of every extractor, and extractors by name."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from tests.pictures.conftest import picture

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures import LLC, EfficientNetLite0, OnnxExtractor, Pixels, TimmExtractor, make_extractor
from likewise.pictures.base import load_extractor, map_groups, n_workers, scratch_rows


@pytest.mark.parametrize(
    ("name", "kind"),
    [("efficientnet-lite0", EfficientNetLite0), ("llc", LLC), ("pixels", Pixels), ("onnx:a:b.onnx", OnnxExtractor),
     ("timm:resnet18", TimmExtractor)],
)  # fmt: skip
def test_extractors_have_names(name: str, kind: type) -> None:
    extractor = make_extractor(name, n_jobs=2)
    assert type(extractor) is kind
    assert extractor.n_jobs == 2
    assert extractor.get_params().get("model", "") == (name.partition(":")[2])
    assert type(clone(extractor)) is kind


@pytest.mark.parametrize("name", ["", "resnet", "onnx", "onnx:", "llc:5", "pixels:", "LLC"])
def test_unknown_names_are_refused(name: str) -> None:
    if name == "pixels:":
        assert isinstance(make_extractor(name), Pixels)
        return
    with pytest.raises(LikewiseError) as caught:
        make_extractor(name)
    assert str(caught.value) == (
        f"unknown extractor {name!r}; expected efficientnet-lite0, llc, onnx:MODEL.onnx, timm:NAME, pixels"
    )


def test_parameters_an_extractor_does_not_have_are_refused() -> None:
    with pytest.raises(LikewiseError, match="extractor pixels has no parameter n_words"):
        make_extractor("pixels", n_words=3)


def test_pixels_are_the_picture() -> None:
    image = picture(0, 6, 6)
    np.testing.assert_allclose(Pixels(6).transform([image]), image.reshape(1, -1) / 255, atol=1e-6)
    assert Pixels(6, colour=False).fit_transform([image]).shape == (1, 36)
    assert Pixels(2).fit([image]).get_feature_names_out()[-1] == "pixels11"


def test_pixels_of_an_invalid_size_are_refused() -> None:
    with pytest.raises(LikewiseError, match="size=0 is not a size; expected pixels, 1 to 8,192"):
        Pixels(0).transform([picture(0)])
    with pytest.raises(LikewiseError, match=r"colour=\[\] is neither True nor False"):
        Pixels(4, colour=[]).transform([picture(0)])  # type: ignore[arg-type]


def test_a_bad_image_is_named_with_its_path_and_number(tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"hello")
    with pytest.raises(LikewiseError) as caught:
        Pixels().transform([picture(0), tmp_path / "bad.jpg"])
    assert str(caught.value) == (
        f"image 1 of X ({tmp_path / 'bad.jpg'}) is not a supported image format "
        "(jpg, png, webp, gif, bmp, tiff, heic, avif)"
    )


def test_the_checksum_follows_what_changes_the_features_only() -> None:
    assert Pixels(4).checksum() == Pixels(4, n_jobs=3).checksum()
    assert Pixels(4).checksum() != Pixels(5).checksum()


def test_an_extractor_can_be_pickled_for_other_processes() -> None:
    extractor = pickle.loads(pickle.dumps(Pixels(4)))
    np.testing.assert_array_equal(extractor.transform([picture(0)]), Pixels(4).transform([picture(0)]))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    Pixels(4).save(tmp_path / "e.safetensors")
    with pytest.raises(FileFormatError, match="holds Pixels, not LLC"):
        LLC.load(tmp_path / "e.safetensors")
    assert load_extractor(tmp_path / "e.safetensors").get_params()["size"] == 4


def test_large_scratch_arrays_lie_in_a_file() -> None:
    assert not isinstance(scratch_rows((3, 4), np.float32), np.memmap)
    rows = scratch_rows((3, 4), np.float32, in_memory=10)
    assert isinstance(rows, np.memmap)
    rows[:] = 1
    assert rows.sum() == 12


def test_timm_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(LikewiseError, match="extractor timm:resnet18 needs timm and PyTorch: pip install timm"):
        TimmExtractor("resnet18").transform([picture(0)])


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(n_jobs: int) -> None:
    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    assert list(map_groups(work, range(30), n_jobs)) == [n * n for n in range(30)]


def test_no_more_tasks_are_taken_than_needed() -> None:
    taken = []

    def tasks() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_groups(lambda number: number, tasks(), n_jobs=2)
    next(results)
    assert len(taken) <= 2 * 3 + 1
    results.close()  # type: ignore[attr-defined]


def test_several_threads_work_at_once() -> None:
    barrier = threading.Barrier(3, timeout=10)
    assert len(list(map_groups(lambda _: barrier.wait(), range(3), n_jobs=3))) == 3


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    def work(number: int) -> int:
        if number == 4:
            raise LikewiseError("four")
        return number

    with pytest.raises(LikewiseError, match="four"):
        list(map_groups(work, range(100), n_jobs=2))


def test_the_number_of_threads_is_checked() -> None:
    assert n_workers(3) == 3
    assert n_workers(None) >= 1
    with pytest.raises(LikewiseError, match="n_jobs=0 is not a number of threads"):
        n_workers(0)
