"""The folder of an index: saved, loaded, damaged, and killed while saving."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from tests.search.conftest import Digits, killed_while

from likewise.errors import FileFormatError, LikewiseError
from likewise.search import Index, storage
from likewise.utils.versions import Versions


@pytest.mark.parametrize("approximate", [False, "hnsw", "ivf"])
def test_what_was_saved_is_what_is_loaded(index: Index, tmp_path: Path, approximate: Any) -> None:
    index = Index.build(index.model, index.raw, {"label": index.labels}, approximate=approximate)
    index.save(tmp_path / "a.index")
    loaded = Index.load(tmp_path / "a.index")
    assert isinstance(loaded.raw, np.memmap)
    assert (loaded.recall, loaded.approximate) == (index.recall, approximate)
    assert loaded.labels is not None
    assert index.labels is not None
    assert loaded.labels.tolist() == index.labels.tolist()
    a, b = (each.search(index.raw[:30], k=10) for each in (loaded, index))
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.scores, b.scores)
    loaded.save(tmp_path / "a.index")  # over itself, while its rows are mapped
    np.testing.assert_array_equal(Index.load(tmp_path / "a.index").raw, index.raw)
    assert len(list((tmp_path / "a.index").glob("version-*"))) == 2  # the one before it stays


def test_loading_leaves_faiss_to_others_as_it_was(index: Index, tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    before = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
    Index.build(index.model, index.raw, approximate="hnsw").save(tmp_path / "a.index")
    Index.load(tmp_path / "a.index")
    assert (faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()) == before


def test_text_ids_and_odd_paths_survive(fitted: dict[str, Any], digits: Digits, tmp_path: Path) -> None:
    items = {"id": ["ä", "2"], "label": [3, None], "path": ["a\udcff\n.png", None]}
    Index.build(fitted["lda"], digits[2][:2], items).save(tmp_path / "a.index")
    loaded = Index.load(tmp_path / "a.index")
    assert loaded.ids.tolist() == ["ä", "2"]
    assert loaded.labels is not None
    assert loaded.labels.tolist() == [3, None]
    assert loaded.paths is not None
    assert loaded.paths.tolist() == ["a\udcff\n.png", None]


def test_where_an_index_came_from_is_remembered(index: Index, tmp_path: Path) -> None:
    folder = index.save(tmp_path / "a.index")
    assert Index.load(folder).source is None
    assert storage.read_facts(folder).get("source") is None
    index = Index.load(folder)
    index.source = {"labels": "folders", "n_learned": 3}
    index.save(folder)
    assert Index.load(folder).source == storage.read_facts(folder)["source"] == {"labels": "folders", "n_learned": 3}


def test_damaged_and_missing_files_are_named(index: Index, tmp_path: Path) -> None:
    folder = index.save(tmp_path / "a.index")
    version = next(folder.glob("version-*"))
    for file in sorted(version.iterdir()):
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if file.name != "meta.json" else data[:-5])
        with pytest.raises(FileFormatError, match=file.name):
            Index.load(folder)
        file.unlink()
        with pytest.raises(FileFormatError, match=f"{file.name} is missing"):
            Index.load(folder)
        file.write_bytes(data)
    Index.load(folder)


def test_a_foreign_folder_a_file_and_nothing_are_told_apart(index: Index, tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match=r"x.index does not exist"):
        Index.load(tmp_path / "x.index")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(FileFormatError, match="mine is not an index: it has no CURRENT"):
        Index.load(tmp_path / "mine")
    with pytest.raises(LikewiseError, match="mine is a folder with other files in it"):
        index.save(tmp_path / "mine")
    with pytest.raises(LikewiseError, match=r"letter\.txt is a file; an index is a folder"):
        index.save(tmp_path / "mine" / "letter.txt")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_a_pointer_that_leads_out_of_the_folder_is_not_followed(index: Index, tmp_path: Path) -> None:
    index.save(tmp_path / "a.index")
    other = index.save(tmp_path / "b.index")
    name = next(other.glob("version-*")).name
    (tmp_path / "a.index" / "CURRENT").write_text(f"version-/../../b.index/{name}")
    with pytest.raises(FileFormatError, match=r"a\.index is damaged: its CURRENT is lost; likewise check .* --repair"):
        Index.load(tmp_path / "a.index")


def test_a_newer_format_is_said_to_be_one(index: Index, tmp_path: Path) -> None:
    folder = index.save(tmp_path / "a.index")
    meta = next(folder.glob("version-*")) / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "format": 99}))
    with pytest.raises(FileFormatError, match=r"has format 99; likewise .* reads up to 1: upgrade likewise"):
        Index.load(folder)


@pytest.mark.parametrize("least", [10, pytest.param(50, marks=pytest.mark.second)])
def test_killed_at_random_moments_while_saving_it_is_the_old_index_or_the_new(
    index: Index, tmp_path: Path, least: int
) -> None:
    folder = tmp_path / "a.index"
    one, two = (Index.build(index.model, index.raw[:n], {"label": index.labels[:n]}) for n in (200, 300))  # type: ignore[index]
    began = time.perf_counter()
    one.save(folder)
    often = time.perf_counter() - began

    def work() -> None:
        while True:
            two.save(folder)
            one.save(folder)

    rng, seen, torn, kills = np.random.default_rng(0), set[int](), 0, 0
    while (kills < least or seen != {200, 300} or not torn) and kills < 500:  # a busy machine may need more of them
        killed_while(work, float(rng.uniform(0, (1.2 + kills / 50) * often)))  # more if the child is slower
        kills += 1
        torn += len(list(folder.glob("version-*"))) > 2
        loaded = Index.load(folder)
        np.testing.assert_array_equal(loaded.raw, index.raw[: len(loaded)])
        seen.add(len(loaded))
    assert seen == {200, 300}
    assert torn > 0
    one.save(folder)
    assert len(list(folder.glob("version-*"))) == 2


def test_a_second_writer_is_refused(index: Index, tmp_path: Path) -> None:
    folder = index.save(tmp_path / "a.index")
    with (
        FileLock(folder / ".lock"),
        pytest.raises(LikewiseError, match=r"a\.index is being written by another process; wait for it to end"),
    ):
        index.save(folder)
    index.save(folder)


def test_a_version_replaced_while_it_is_read_is_read_anew(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = index.save(tmp_path / "a.index")
    current, names = Versions.current, list[Path | None]()

    def replaced(self: Versions, folder: Path) -> Path | None:
        version = current(self, folder)
        names.append(version)
        if len(names) == 1:
            index.save(folder)
            index.save(folder)  # the version before the current one stays, the one before that goes
        return version

    with monkeypatch.context() as patch:
        patch.setattr(Versions, "current", replaced)
        assert len(Index.load(folder)) == len(index)
    assert names[0] is not None
    assert not names[0].exists()
    assert names[-1] != names[0]


def test_an_index_is_repointed_if_half_of_its_pictures_are_in_the_new_folder(
    fitted: dict[str, Any], digits: Digits, tmp_path: Path
) -> None:
    paths = [f"{number}.png" for number in range(400)]
    folder = Index.build(fitted["lda"], digits[2][:400], {"path": paths}).save(tmp_path / "a.index")
    (tmp_path / "new").mkdir()
    for path in paths[:190]:
        (tmp_path / "new" / path).touch()
    with pytest.raises(LikewiseError, match=r"new does not hold the pictures of .*a.index: .*\.png does not exist"):
        storage.repoint(folder, tmp_path / "new")
    assert Index.load(folder).root is None
    for path in paths[190:220]:
        (tmp_path / "new" / path).touch()
    storage.repoint(folder, tmp_path / "new")
    loaded = Index.load(folder)
    assert loaded.image_path(7) == tmp_path / "new" / "7.png"
    np.testing.assert_array_equal(loaded.raw, digits[2][:400])


def test_only_an_index_of_pictures_can_be_repointed(index: Index, tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="was built from numbers and has no pictures"):
        storage.repoint(index.save(tmp_path / "a.index"), tmp_path)
    with pytest.raises(FileFormatError, match="is not an index: it has no CURRENT"):
        storage.repoint(tmp_path / "none", tmp_path)
    assert not (tmp_path / "none").exists()
