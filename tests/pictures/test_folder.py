"""Finding images: every name, no loop, a reason for everything left out; labels from folders or from a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.pictures.conftest import picture, save

from likewise.errors import LikewiseError
from likewise.pictures.folder import (
    find_images,
    label_folders,
    labels_from_file,
    labels_from_folders,
    names_a_class,
    read_list,
)


def names(folder: Path, **options: object) -> list[str]:
    return [image.path for image in find_images(folder, **options)[0]]  # type: ignore[arg-type]


def reasons(folder: Path) -> dict[str, str]:
    return {path: reason for path, reason, _ in find_images(folder)[1]}


def test_images_are_found_at_any_depth_in_byte_order(tmp_path: Path) -> None:
    for name in ("b.png", "a/z.png", "a/B/c.png", "Z.png"):
        save(tmp_path / name, picture(0))
    assert names(tmp_path) == ["Z.png", "a/B/c.png", "a/z.png", "b.png"]


def test_size_and_time_are_those_of_the_file(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", picture(0))
    image = find_images(tmp_path)[0][0]
    assert (image.size, image.mtime_ns) == (path.stat().st_size, path.stat().st_mtime_ns)


@pytest.mark.parametrize(
    "name", [b"two words.png", b"new\nline.png", b"caf\xe9 \xff.png", b"a,b\"c'.png", b"\\x41.png"]
)
def test_any_name_a_file_can_have_is_found(tmp_path: Path, name: bytes) -> None:
    save(tmp_path / "plain.png", picture(0))
    os.rename(tmp_path / "plain.png", os.path.join(os.fsencode(tmp_path), name))
    assert [os.fsencode(path) for path in names(tmp_path)] == [name]


def test_other_files_are_listed_and_hidden_ones_passed_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".DS_Store").write_text("")
    save(tmp_path / ".hidden" / "a.png", picture(0))
    assert names(tmp_path) == []
    assert reasons(tmp_path) == {
        "notes.txt": "is not a supported image format (jpg, png, webp, gif, bmp, tiff, heic, avif)"
    }


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", picture(0))
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert names(tmp_path) == ["a/1.png"]
    assert reasons(tmp_path)["a/up"] == "is a link to a folder that has been read already"
    assert "self" in reasons(tmp_path)


def test_a_linked_folder_elsewhere_is_followed_once(tmp_path: Path) -> None:
    save(tmp_path / "elsewhere" / "1.png", picture(0))
    (tmp_path / "here").mkdir()
    for name in ("a", "b"):
        (tmp_path / "here" / name).symlink_to(tmp_path / "elsewhere")
    assert names(tmp_path / "here") == ["a/1.png"]
    assert reasons(tmp_path / "here") == {"b": "is a link to a folder that has been read already"}


def test_a_real_folder_keeps_its_own_name_though_a_link_to_it_comes_first(tmp_path: Path) -> None:
    save(tmp_path / "z" / "1.png", picture(0))
    (tmp_path / "a").symlink_to(tmp_path / "z")
    assert names(tmp_path) == ["z/1.png"]


def test_broken_links_and_pipes_are_listed(tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.jpg")
    assert reasons(tmp_path) == {"gone.jpg": "is a broken link", "pipe.jpg": "is not a regular file"}


def test_an_unreadable_folder_is_listed_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "good" / "1.png", picture(0))
    (tmp_path / "locked").mkdir()
    scan = os.scandir

    def refuse(path: object) -> object:
        if str(path).endswith("locked"):  # the tests may run as root, whom no permission stops
            raise PermissionError(13, "Permission denied")
        return scan(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refuse)
    assert names(tmp_path) == ["good/1.png"]
    assert reasons(tmp_path) == {"locked": "the folder cannot be read: Permission denied"}


def test_what_is_ignored_is_not_there(tmp_path: Path) -> None:
    save(tmp_path / "a.png", picture(0))
    save(tmp_path / "out.features" / "b.png", picture(0))
    assert names(tmp_path, ignore=[tmp_path / "out.features"]) == ["a.png"]


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="none does not exist"):
        find_images(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(LikewiseError, match="file is not a folder"):
        find_images(tmp_path / "file")


def test_the_first_folder_is_the_label() -> None:
    assert labels_from_folders(["cat/1.jpg", "cat/old/2.jpg", "dog/3.jpg", "4.jpg"]) == ["cat", "cat", "dog", ""]


def test_a_wrapping_folder_is_not_a_label() -> None:
    assert labels_from_folders(["set/cat/1.jpg", "set/dog/2.jpg"]) == ["cat", "dog"]


def test_one_label_is_one_label() -> None:
    assert labels_from_folders(["cat/1.jpg", "cat/2.jpg"]) == ["cat", "cat"]
    assert labels_from_folders(["1.jpg"]) == [""]


def tree(**counts: int) -> list[str]:
    """Paths of a folder with so many pictures in each sub-folder."""
    return [f"{folder}/{i}.jpg" for folder, count in counts.items() for i in range(count)]


def test_folders_of_classes_look_like_labels_and_are_described() -> None:
    seen = label_folders(tree(cat=40, dog=60, horse=45))
    assert seen.look_like_labels
    assert seen.names == ["cat", "dog", "horse"]
    assert seen.counts == {"cat": 40, "dog": 60, "horse": 45}
    assert seen.sentence == "3 folders with 40 to 60 pictures each"


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        (["a.jpg"], "no folders"),
        (["a/b.jpg", "c.jpg"], "1 folder with 1 picture"),
        (tree(a=1, b=1), "2 folders with 1 picture each"),
        (tree(a=5), "1 folder with 5 pictures"),
        (tree(a=1200, b=1200), "2 folders with 1,200 pictures each"),
    ],
)
def test_what_is_seen_is_one_sentence(paths: list[str], sentence: str) -> None:
    assert label_folders(paths).sentence == sentence


@pytest.mark.parametrize(
    "counts",
    [
        {"cat": 50},  # one class
        {"cat": 1, "dog": 2, "horse": 1},  # too few to learn from
        {"2021": 300, "2022": 500, "2023-05": 40},  # a phone's
        {"100APPLE": 90, "101APPLE": 120},
        {"Camera": 400, "WhatsApp Images": 200, "Screenshots": 80, "Download": 20},
        {"01 January": 20, "02 February": 30, "03 March": 40},  # a photographer's
        {"2019-06-12 Wedding": 300, "2019-07-01 Portraits": 120, "2020 Iceland": 700},
        {"train": 100, "test": 50},
        {"cat": 20, "dog": 20, "misc": 30},  # a third does not name a class
    ],
)
def test_folders_of_dates_devices_and_leftovers_are_not_labels(counts: dict[str, int]) -> None:
    assert not label_folders(tree(**counts)).look_like_labels


def test_a_few_classes_among_many_loose_pictures_are_not_labels() -> None:
    assert not label_folders([*tree(cat=10, dog=10), *(f"{i}.jpg" for i in range(20))]).look_like_labels


def test_the_months_of_a_year_are_not_labels_but_digits_are() -> None:
    months = {f"{month:02d}": 20 for month in range(1, 13)}
    assert not label_folders([f"2023/{path}" for path in tree(**months)]).look_like_labels
    assert label_folders(tree(**{str(digit): 20 for digit in range(10)})).look_like_labels


def test_one_odd_name_among_many_classes_does_not_matter() -> None:
    assert label_folders(tree(a=9, b=9, c=9, d=9, unsorted=9)).look_like_labels


def labelled(tmp_path: Path, text: str | bytes, paths: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    file = tmp_path / "labels.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    labels, problems = labels_from_file(file, tmp_path, paths)
    return labels, {path: reason for path, reason, _ in problems}


@pytest.mark.parametrize(
    "text",
    [
        "path,label\na.jpg,cat\nb/c.jpg,dog\n",
        "a.jpg,cat\nb/c.jpg,dog\n",
        "\ufefffilename,size,class\r\n./a.jpg,1,cat\r\nb//c.jpg,2,dog\r\n",
        'label,path\n"cat","a.jpg"\n"dog","b/c.jpg"\n\n',
        "a.jpg,cat\na.jpg,cat\nb/c.jpg,dog\n",
    ],
)
def test_label_files_of_every_shape_are_read(tmp_path: Path, text: str) -> None:
    labels, problems = labelled(tmp_path, text, ["a.jpg", "b/c.jpg"])
    assert labels == {"a.jpg": "cat", "b/c.jpg": "dog"}
    assert problems == {}


def test_whole_paths_are_understood(tmp_path: Path) -> None:
    labels, problems = labelled(tmp_path, f"{tmp_path}/a.jpg,cat\n", ["a.jpg"])
    assert labels == {"a.jpg": "cat"}
    assert problems == {}


def test_names_that_are_not_utf8_can_be_labelled_raw_or_escaped(tmp_path: Path) -> None:
    path = os.fsdecode(b"caf\xe9.jpg")
    assert labelled(tmp_path, b"caf\xe9.jpg,x\n", [path])[0] == {path: "x"}
    assert labelled(tmp_path, rb"caf\xe9.jpg,x", [path])[0] == {path: "x"}


def test_images_without_a_label_labels_without_an_image_and_two_labels_are_listed(tmp_path: Path) -> None:
    labels, problems = labelled(tmp_path, "a.jpg,cat\nno.jpg,cat\nb.jpg,x\nb.jpg,y\n", ["a.jpg", "b.jpg", "c.jpg"])
    assert labels == {"a.jpg": "cat"}
    assert problems == {
        "no.jpg": "labels.csv lists it, but there is no such image",
        "c.jpg": "labels.csv gives it no label",
        "b.jpg": "labels.csv gives it 2 labels: x, y",
    }


@pytest.mark.parametrize(("text", "words"), [("", "is empty"), ("a.jpg\n", "has no label in row 1")])
def test_label_files_that_are_none_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(LikewiseError, match=words):
        labelled(tmp_path, text, ["a.jpg"])


def test_a_label_file_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match=r"cannot read .*labels\.csv: No such file"):
        labels_from_file(tmp_path / "labels.csv", tmp_path, ["a.jpg"])


def test_a_list_of_images_is_read(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"b.jpg\r\na.jpg\n\nb.jpg\n")
    assert read_list(tmp_path / "list.txt", tmp_path, ["a.jpg", "b.jpg", "c.jpg"]) == ["a.jpg", "b.jpg"]


@pytest.mark.parametrize(("text", "words"), [("no.jpg\n", "lists 1 images that are not in"), ("\n", "lists no image")])
def test_a_list_with_strangers_or_nothing_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(LikewiseError, match=words):
        read_list(tmp_path / "list.txt", tmp_path, ["a.jpg"])


# ---------------------------------------------------------------------------------------------------------------------
# Names of folders


@pytest.mark.parametrize(
    "name",
    [
        "2023", "2023-05", "2023_05_01", "20230501", "2019 Summer", "Summer 2019", "01 January", "05-May", "Mai 2023",
        "août", "01.05.2023", "DCIM", "100APPLE", "101_PANA", "102CANON", "Camera", "camera roll", "Kamera", "phone",
        "iPhone", "iPhone 12 Pro", "Téléphone", "Telefon", "WhatsApp Images", "WhatsApp", "Screenshots", "Downloads",
        "backup", "Backup old disk", "import", "misc", "unsorted", "New folder", "New Folder (3)", "Neuer Ordner",
        "Untitled", "untitled 2", "Fotos", "Bilder", "IMAGES", "train",
    ],
)  # fmt: skip
def test_dates_devices_and_leftovers_are_not_classes(name: str) -> None:
    assert not names_a_class(name)


@pytest.mark.parametrize(
    "name",
    [
        "cat", "accordion", "Faces_easy", "BACKGROUND_Google", "car_side", "0", "7", "airplanes", "001.ak47", "may fly",
        "camera lens", "cellphone", "n01440764", "Käfer", "summer", "marsupials", "phoenix", "Audi A4 2012", "mayfly",
    ],
)  # fmt: skip
def test_what_a_picture_may_show_is_a_class(name: str) -> None:
    assert names_a_class(name)


def test_a_number_in_a_folder_named_by_a_date_is_a_month_or_a_day() -> None:
    assert not names_a_class("05", around="2023")
    assert names_a_class("05", around="digits")
