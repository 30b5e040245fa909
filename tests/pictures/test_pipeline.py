"""A run over a folder: what it does, what it leaves out, and that a kill at any moment changes nothing."""

from __future__ import annotations

import csv
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.pictures.conftest import contents, picture, save

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures import Pixels, extract_folder, pipeline
from likewise.pictures.records import content_hash
from likewise.rows import FeatureStore
from likewise.rows.store import is_store
from likewise.utils.files import locked


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BATCH", 3)
    monkeypatch.setattr(Pixels, "group", 2)


def skipped(store: Path) -> dict[str, str]:
    folder = FeatureStore.open(store).version if is_store(store) else store
    with open(folder / "skipped.csv", newline="", encoding="utf-8") as file:
        return {row["path"]: row["reason"] for row in csv.DictReader(file)}


def run(photos: Path, name: str = "out.features", **options: object) -> tuple[Path, pipeline.Summary]:
    store = photos.parent / name
    return store, extract_folder(photos, store, Pixels(size=5, n_jobs=2), **options)  # type: ignore[arg-type]


def test_rows_are_the_images_in_order(photos: Path) -> None:
    store, summary = run(photos)
    opened = FeatureStore.open(store)
    paths = sorted(f"{p.parent.name}/{p.name}" for p in photos.rglob("*.png"))
    assert opened.paths == paths
    assert opened.labels is not None
    assert opened.labels.tolist() == [path[0] for path in paths]
    np.testing.assert_array_equal(opened.features, Pixels(size=5).transform([photos / path for path in paths]))
    assert (summary.n_items, summary.n_features, summary.n_classes) == (12, 75, 3)
    assert (summary.n_new, summary.n_reused, summary.n_removed, summary.n_skipped) == (12, 0, 0, 0)
    assert opened.image_path(0) == photos.resolve() / paths[0]


def test_a_query_goes_through_the_stores_own_extractor(photos: Path) -> None:
    opened = FeatureStore.open(run(photos)[0])
    row = opened.extractor().transform([opened.image_path(4)])
    np.testing.assert_array_equal(row[0], opened.features[4])


def test_a_second_run_does_nothing(photos: Path) -> None:
    store, _ = run(photos)
    before = {path: path.stat().st_mtime_ns for path in store.iterdir() if path.name != ".lock"}
    summary = run(photos)[1]
    assert (summary.n_new, summary.n_reused) == (0, 12)
    assert {path: path.stat().st_mtime_ns for path in store.iterdir() if path.name != ".lock"} == before


def test_only_new_and_changed_images_are_done_and_deleted_ones_go(photos: Path) -> None:
    run(photos)
    save(photos / "d" / "new.png", picture(50))
    save(photos / "a" / "00.png", picture(51, 30, 30))
    (photos / "b" / "01.png").unlink()
    store, summary = run(photos)
    assert (summary.n_new, summary.n_reused, summary.n_removed) == (2, 10, 2)
    assert summary.n_items == 12
    clean = contents(run(photos, "clean.features")[0])
    assert contents(store) == clean


def test_a_moved_folder_of_images_keeps_its_rows(photos: Path) -> None:
    store, _ = run(photos)
    moved = photos.rename(photos.parent / "moved")
    summary = extract_folder(moved, store, Pixels(size=5))
    assert (summary.n_new, summary.n_reused) == (0, 12)
    assert FeatureStore.open(store).root == moved.resolve()


# ---------------------------------------------------------------------------------------------------------------------
# Known by content


@pytest.fixture
def no_extraction(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it, and from then on nothing can be computed."""

    def forbid(*_: object) -> np.ndarray:
        raise AssertionError("features were computed")

    return lambda: monkeypatch.setattr(Pixels, "rows", forbid)


def test_items_know_the_hash_of_their_file_and_when_it_was_taken(photos: Path) -> None:
    exif = Image.Exif()
    exif[0x0132] = "2023:05:01 10:20:30"
    path = save(photos / "a" / "00.png", picture(0), exif=exif)
    opened = FeatureStore.open(run(photos)[0])
    assert opened.items[0].hash == content_hash(path.read_bytes())
    assert [item.taken for item in opened.items] == ["2023-05-01T10:20:30"] + [""] * 11


def test_renamed_moved_and_copied_files_keep_their_features(photos: Path, no_extraction: Callable[[], None]) -> None:
    store, _ = run(photos)
    (photos / "a" / "00.png").rename(photos / "a" / "zz.png")
    (photos / "new").mkdir()
    (photos / "b" / "01.png").rename(photos / "new" / "01.png")
    shutil.copy(photos / "c" / "02.png", photos / "c" / "copy.png")
    clean = contents(run(photos, "clean.features")[0])
    no_extraction()
    store, summary = run(photos)
    assert (summary.n_new, summary.n_reused, summary.n_renamed, summary.n_removed) == (0, 13, 3, 0)
    assert contents(store) == clean


def test_a_touched_file_keeps_its_features_and_another_of_its_size_does_not(photos: Path) -> None:
    run(photos)
    os.utime(photos / "a" / "00.png")
    data = bytearray((photos / "b" / "01.png").read_bytes())
    save(photos / "b" / "01.png", picture(77))
    assert data != (photos / "b" / "01.png").read_bytes()
    store, summary = run(photos)
    assert (summary.n_new, summary.n_reused, summary.n_renamed, summary.n_removed) == (1, 11, 0, 1)
    assert contents(store) == contents(run(photos, "clean.features")[0])


def forget_stamps(store: Path) -> None:
    """As if the pictures had come from another disk: all have to be read."""
    items = FeatureStore.open(store).version / "items.csv"
    lines = items.read_text().splitlines()
    items.write_text(
        "".join(line.rpartition(",")[0] + f",{'stamp' * (not place)}\n" for place, line in enumerate(lines))
    )


def test_files_from_another_disk_are_read_and_no_feature_is_computed(
    photos: Path, no_extraction: Callable[[], None]
) -> None:
    store, _ = run(photos)
    clean = contents(store)
    forget_stamps(store)
    rows = (FeatureStore.open(store).version / "features.npy").stat().st_mtime_ns
    no_extraction()
    summary = run(photos)[1]
    assert (summary.n_new, summary.n_reused, summary.n_renamed) == (0, 12, 0)
    assert contents(store) == clean
    assert (FeatureStore.open(store).version / "features.npy").stat().st_mtime_ns == rows


def test_files_of_equal_size_and_time_that_swap_names_or_are_replaced_are_read_again(photos: Path) -> None:
    names = sorted(path.relative_to(photos).as_posix() for path in photos.rglob("*.png"))[:3]
    one, two, three = (photos / name for name in names)
    size = max(path.stat().st_size for path in (one, two, three))
    for path in (one, two, three):
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))
        os.utime(path, ns=(10**18, 10**18))
    store, _ = run(photos)
    before = {item.path: item.hash for item in FeatureStore.open(store).items}
    one.rename(photos / "other")
    two.rename(one)
    (photos / "other").rename(two)
    three.write_bytes(one.read_bytes())
    os.utime(three, ns=(10**18, 10**18))
    run(photos)
    after = {item.path: item.hash for item in FeatureStore.open(store).items}
    assert [after[name] for name in names] == [before[names[place]] for place in (1, 0, 1)]


def test_killed_while_reading_hashes_it_is_resumed(photos: Path) -> None:
    store, _ = run(photos)
    clean = contents(store)
    for after in (2, 5, 9):
        forget_stamps(store)
        assert killed_run(photos, "fsync", after) == -signal.SIGKILL
        run(photos)
        assert contents(store) == clean


# ---------------------------------------------------------------------------------------------------------------------
# Killed


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a fork of this process and return how it ended: 0, or the negative number of the signal."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def killing(name: str, after: int) -> None:
    """Replace os.`name` by itself, but the call number `after` is the last thing this process does."""
    original, count = getattr(os, name), [0]

    def deadly(*args: object, **options: object) -> object:
        result = original(*args, **options)
        count[0] += 1
        if count[0] > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, name, deadly)


def killed_run(photos: Path, call: str, after: int, name: str = "out.features") -> int:
    """How a run ended that was to be killed after so many calls of os.`call`."""

    def work() -> None:
        killing(call, after)
        run(photos, name)

    return in_child(work)


@pytest.mark.parametrize("name", ["fsync", "replace", "unlink"])
def test_killed_at_any_moment_and_run_again_gives_the_same_bytes(photos: Path, name: str) -> None:
    (photos / "a" / "bad.png").write_bytes(b"no image")
    for path in sorted(photos.rglob("*.png"))[6:]:  # two batches are enough
        path.unlink()
    clean = contents(run(photos, "clean.features")[0])
    killed = 0
    for after in range(100):
        store = photos.parent / "killed.features"
        shutil.rmtree(store, ignore_errors=True)
        code = killed_run(photos, name, after, "killed.features")
        assert code in (0, -signal.SIGKILL)
        run(photos, "killed.features")
        assert contents(store) == clean
        if code == 0:
            break
        killed += 1
    assert code == 0
    assert killed > 2


def test_killed_while_adding_to_a_store_gives_the_same_bytes(photos: Path) -> None:
    store, _ = run(photos)
    shutil.copytree(store, photos.parent / "before.features")
    for number in range(5):
        save(photos / "b" / f"new{number}.png", picture(60 + number))
    clean = contents(run(photos, "clean.features")[0])
    for after in range(0, 40, 3):
        shutil.rmtree(store)
        shutil.copytree(photos.parent / "before.features", store)
        killed_run(photos, "fsync", after)
        run(photos)
        assert contents(store) == clean


def test_a_kill_loses_at_most_the_batches_in_flight(photos: Path) -> None:
    assert killed_run(photos, "fsync", 8) == -signal.SIGKILL
    stages: list[tuple[str, int, int]] = []
    run(photos, progress=lambda *step: stages.append(step))
    (left,) = {total for stage, _, total in stages if stage == "extracting"}
    assert left < 12


def test_rows_without_a_record_are_cut_off(photos: Path) -> None:
    clean = contents(run(photos, "clean.features")[0])
    killed_run(photos, "fsync", 12)
    store = photos.parent / "out.features"
    with open(store / ".work" / "rows.bin", "ab") as file:
        file.write(b"torn")
    run(photos)
    assert contents(store) == clean


def test_rows_that_rotted_are_done_again(photos: Path) -> None:
    clean = contents(run(photos, "clean.features")[0])
    killed_run(photos, "fsync", 12)
    store = photos.parent / "out.features"
    with open(store / ".work" / "rows.bin", "r+b") as file:
        file.seek(40)
        file.write(b"\xff\xff\xff")
    run(photos)
    assert contents(store) == clean


def test_two_writers_at_once_are_refused(photos: Path) -> None:
    store = photos.parent / "out.features"
    with locked(store), pytest.raises(LikewiseError, match="is being written by another process"):
        run(photos)
    assert run(photos)[1].n_items == 12


def test_a_writer_in_another_process_is_refused_too(photos: Path) -> None:
    with locked(photos.parent / "out.features"):
        assert in_child(lambda: run(photos)) == 1


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def test_bad_files_are_listed_and_the_run_goes_on(photos: Path) -> None:
    good = (photos / "a" / "00.png").read_bytes()
    (photos / "a" / "corrupt.png").write_bytes(good[:60] + bytes(30) + good[90:])
    (photos / "a" / "truncated.png").write_bytes(good[: len(good) // 2])
    (photos / "b" / "empty.jpg").write_bytes(b"")
    (photos / "b" / "text.jpg").write_bytes(b"hello")
    (photos / "notes.txt").write_text("hello")
    save(photos / "c" / "huge.png", np.zeros((300, 300, 3), np.uint8))
    store, summary = run(photos, max_pixels=50_000)
    assert summary.n_items == 12
    assert summary.n_skipped == 6
    assert summary.skipped == {
        "damaged": 2, "empty": 1, "not a supported image format": 2, "above the limit of pixels": 1,
    }  # fmt: skip
    assert list(summary.skipped.values()) == [2, 2, 1, 1]
    reasons = skipped(store)
    assert reasons["b/empty.jpg"] == "the file is empty"
    assert reasons["b/text.jpg"] == "is not a supported image format (jpg, png, webp, gif, bmp, tiff, heic, avif)"
    assert reasons["c/huge.png"] == "is 300 × 300 pixels, above the limit of 50,000 pixels"
    assert reasons["a/truncated.png"].startswith("is damaged or truncated: ")
    assert reasons["a/corrupt.png"].startswith("is damaged or truncated: ")
    assert "notes.txt" in reasons


def test_a_bad_file_that_is_mended_comes_in(photos: Path) -> None:
    (photos / "a" / "late.png").write_bytes(b"half")
    store, summary = run(photos)
    assert summary.n_skipped == 1
    save(photos / "a" / "late.png", picture(99))
    store, summary = run(photos)
    assert (summary.n_items, summary.n_new, summary.n_skipped) == (13, 1, 0)
    assert skipped(store) == {}


def test_names_of_every_kind_come_back(photos: Path) -> None:
    strange = [b"two words.png", b"new\nline.png", b"caf\xe9.png", b"back\\slash.png", b'quo"te,s.png']
    for name in strange:
        shutil.copy(photos / "a" / "00.png", os.path.join(os.fsencode(photos), b"b", name))
    opened = FeatureStore.open(run(photos)[0])
    assert {b"b/" + name for name in strange} <= {os.fsencode(path) for path in opened.paths}
    assert all(opened.image_path(row).exists() for row in range(len(opened)))
    assert run(photos)[1].n_new == 0


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(LikewiseError, match=r"photos contains no image \(jpg, png, webp, gif, bmp, tiff, heic, avif\)"):
        run(tmp_path / "photos")


def test_a_folder_of_bad_images_alone_is_refused_and_they_are_listed(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    with pytest.raises(LikewiseError, match=r"none of the 1 images in .* could be used"):
        run(tmp_path / "photos")
    assert skipped(tmp_path / "out.features") == {"a.jpg": "the file is empty"}


def test_the_store_may_lie_in_the_folder(photos: Path) -> None:
    store = photos / "own.features"
    assert extract_folder(photos, store, Pixels(size=4)).n_skipped == 0
    assert extract_folder(photos, store, Pixels(size=4)).n_skipped == 0


def test_labels_come_from_a_file_if_there_is_one(photos: Path) -> None:
    file = photos / "labels.csv"
    names = sorted(f"{p.parent.name}/{p.name}" for p in photos.rglob("*.png"))
    file.write_text(
        "path,label\n" + "".join(f"{name},{'odd' if i % 2 else 'even'}\n" for i, name in enumerate(names[:-1]))
    )
    store, summary = run(photos, labels=file)
    opened = FeatureStore.open(store)
    assert opened.labels is not None
    assert opened.labels.tolist() == ["odd" if i % 2 else "even" for i in range(11)]
    assert summary.n_skipped == 1
    assert skipped(store) == {names[-1]: "labels.csv gives it no label"}


def test_new_labels_alone_compute_nothing(photos: Path) -> None:
    store, _ = run(photos)
    file = photos / "labels.csv"
    file.write_text("".join(f"{path},same\n" for path in FeatureStore.open(store).paths))
    summary = run(photos, labels=file)[1]
    assert (summary.n_new, summary.n_reused, summary.n_classes) == (0, 12, 1)


def test_labels_may_be_refused_and_taken_back_without_touching_the_features(
    photos: Path, no_extraction: Callable[[], None]
) -> None:
    store, _ = run(photos)
    clean = contents(store)
    rows = (FeatureStore.open(store).version / "features.npy").stat().st_mtime_ns
    no_extraction()
    assert run(photos, labels="none")[1].n_classes == 0
    assert FeatureStore.open(store).labels is None
    assert run(photos, labels="folders")[1].n_classes == 3
    assert contents(store) == clean
    assert (FeatureStore.open(store).version / "features.npy").stat().st_mtime_ns == rows


def test_a_label_file_about_other_images_is_refused(photos: Path) -> None:
    (photos / "labels.csv").write_text("x.png,cat\n")
    with pytest.raises(LikewiseError, match=r"has no label for any of the 12 images in "):
        run(photos, labels=photos / "labels.csv")


# ---------------------------------------------------------------------------------------------------------------------
# Settings


def test_another_extractor_does_not_mix_into_a_store(photos: Path) -> None:
    store, _ = run(photos)
    with pytest.raises(LikewiseError, match="was made by another extractor or with other settings"):
        extract_folder(photos, store, Pixels(size=6))
    assert extract_folder(photos, store, Pixels(size=6), overwrite=True).n_features == 108
    assert contents(store) == contents(_six(photos))


def _six(photos: Path) -> Path:
    extract_folder(photos, photos.parent / "six.features", Pixels(size=6))
    return photos.parent / "six.features"


def test_overwrite_keeps_what_is_right_already(photos: Path) -> None:
    run(photos)
    assert run(photos, overwrite=True)[1].n_reused == 12


def test_a_damaged_store_is_said_and_can_be_overwritten(photos: Path) -> None:
    store, _ = run(photos)
    clean = contents(store)
    (FeatureStore.open(store).version / "features.npy").write_bytes(b"")
    with pytest.raises(FileFormatError, match="damaged"):
        run(photos)
    run(photos, overwrite=True)
    assert contents(store) == clean


def test_half_precision_halves_the_file(photos: Path) -> None:
    store, _ = run(photos, dtype="float16")
    assert FeatureStore.open(store).features.dtype == np.float16
    assert run(photos, dtype="float16")[1].n_new == 0
    with pytest.raises(LikewiseError, match="with other settings"):
        run(photos, dtype="float32")


def test_an_unknown_type_is_refused(photos: Path) -> None:
    with pytest.raises(LikewiseError, match="dtype='int8' is not supported; expected float32 or float16"):
        run(photos, dtype="int8")


def test_values_that_half_precision_cannot_hold_are_refused(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pixels, "finish", lambda self, rows: rows * np.float32(1e6))
    with pytest.raises(LikewiseError, match="does not fit in float16; use float32"):
        run(photos, dtype="float16")


def test_an_output_that_cannot_be_written_is_said(photos: Path) -> None:
    (photos.parent / "file").write_text("")
    with pytest.raises(LikewiseError, match="cannot write to"):
        run(photos, "file/out.features")


def test_the_number_of_threads_does_not_change_the_bytes(photos: Path) -> None:
    for n_jobs in (1, 4):
        extract_folder(photos, photos.parent / f"{n_jobs}.features", Pixels(size=5, n_jobs=n_jobs))
    assert (
        contents(photos.parent / "1.features")["current/features.npy"]
        == contents(photos.parent / "4.features")["current/features.npy"]
    )
