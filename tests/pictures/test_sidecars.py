"""Sidecars: a keyword is added to all of them or taken back, even if others write there, or the process is killed."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image
from tests.hostile.faults import DEAD, SENTENCE, SUCCESS, with_fault
from tests.processes import FORKED

from likewise.errors import LikewiseError
from likewise.pictures.sidecars import Applied, Entry, UndoList, apply_keyword, undo_keyword
from likewise.pictures.xmp import EMPTY, Xmp
from likewise.utils.journal import Journal

Exiftool = Callable[..., str]


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    (tmp_path / "photos").mkdir()
    paths = [tmp_path / "photos" / f"{number}.jpg" for number in range(6)]
    for number, path in enumerate(paths):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(path)
    return paths


@pytest.fixture
def undo(tmp_path: Path) -> Path:
    return tmp_path / "undo.sqlite"


def state(photos: list[Path]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(photos[0].parent.iterdir())}


def sidecar(photo: Path) -> Path:
    return photo.with_name(f"{photo.name}.xmp")


def read_sidecar(path: Path) -> Xmp:
    return Xmp(path.read_bytes())


def subjects(photo: Path) -> list[str]:
    return read_sidecar(sidecar(photo)).words("dc:subject")


def packet(*words: str, field: str = "dc:subject") -> bytes:
    xmp = Xmp(EMPTY)
    xmp.add({field: words})
    return xmp.to_bytes()


def counts(outcome: Applied) -> tuple[int, int, int, int]:
    return outcome.created, outcome.changed, outcome.already, len(outcome.skipped)


def test_new_sidecars_are_made_and_deleted_again_and_pictures_never_change(photos: list[Path], undo: Path) -> None:
    before = state(photos)
    assert counts(apply_keyword(photos, "cat", undo)) == (6, 0, 0, 0)
    assert {name: data for name, data in state(photos).items() if not name.endswith(".xmp")} == before
    assert all(subjects(photo) == ["cat"] for photo in photos)
    assert counts(apply_keyword(photos, "cat", undo)) == (0, 0, 6, 0)
    assert undo_keyword(undo).deleted == 6
    assert state(photos) == before
    assert undo_keyword(undo).deleted == 0


def test_without_an_undo_list_nothing_is_written_but_counted(photos: list[Path]) -> None:
    sidecar(photos[0]).write_bytes(packet("cat"))
    sidecar(photos[1]).write_bytes(packet("dog"))
    before = state(photos)
    assert counts(apply_keyword(photos, "cat", None)) == (4, 1, 1, 0)
    assert state(photos) == before


def test_what_exiftool_wrote_stays_and_it_reads_what_was_added(
    photos: list[Path], undo: Path, exiftool: Exiftool
) -> None:
    tags = ["-Rating=4", "-Title=A & B", "-Subject=beach", "-XMP-lr:HierarchicalSubject=place|beach", "-Label=Red"]
    for photo in photos[:3]:
        exiftool(*tags, "-GPSLatitude=48.1", "-XMP-photoshop:City=Köln", sidecar(photo))
    before, read = state(photos), exiftool("-a", "-G1", "-XMP:all", sidecar(photos[0]))
    assert counts(apply_keyword(photos, "Kätzchen", undo)) == (3, 3, 0, 0)
    after = exiftool("-a", "-G1", "-XMP:all", sidecar(photos[0]))
    gone, new = set(read.splitlines()) - set(after.splitlines()), set(after.splitlines()) - set(read.splitlines())
    assert sorted(line.split(":")[1].strip() for line in gone) == ["beach", "place|beach"]
    assert sorted(line.split(":")[1].strip() for line in new) == ["beach, Kätzchen", "place|beach, Kätzchen"]
    assert exiftool("-s3", "-Subject", "-TagsList", sidecar(photos[5])).split() == ["Kätzchen", "Kätzchen"]
    outcome = undo_keyword(undo)
    assert (outcome.restored, outcome.deleted) == (3, 3)
    assert state(photos) == before


def test_undo_keeps_what_others_have_changed_since(photos: list[Path], undo: Path, exiftool: Exiftool) -> None:
    sidecar(photos[0]).write_bytes(packet("mine"))
    apply_keyword(photos, "cat", undo)
    for photo in photos[:2]:
        exiftool("-Subject+=later", "-Rating=5", sidecar(photo))
    exiftool("-Subject-=cat", "-TagsList=", sidecar(photos[2]))
    outcome = undo_keyword(undo)
    assert (outcome.edited, outcome.deleted, outcome.untouched) == (2, 3, 1)
    assert subjects(photos[0]) == ["mine", "later"]
    assert subjects(photos[1]) == ["later"]
    assert exiftool("-s3", "-Rating", sidecar(photos[1])).strip() == "5"


def test_a_keyword_that_was_there_before_is_not_taken_back(photos: list[Path], undo: Path) -> None:
    sidecar(photos[0]).write_bytes(packet("cat", "mine"))
    before = state(photos)
    apply_keyword(photos, "cat", undo)
    undo_keyword(undo)
    assert state(photos) == before
    apply_keyword(photos, "cat", undo)
    undo_keyword(undo)
    sidecar(photos[1]).write_bytes(packet("cat"))  # by the user, after the undo
    undo_keyword(undo)
    assert subjects(photos[1]) == ["cat"]


def test_a_new_list_begins_with_the_keywords_it_would_hide(photos: list[Path], undo: Path) -> None:
    Image.new("RGB", (4, 4)).save(photos[0], xmp=packet("beach"))
    Image.new("RGB", (4, 4)).save(photos[1], xmp=packet("beach", "cat"))
    Image.new("RGB", (4, 4)).save(photos[2], xmp=packet("place|beach", field="lr:hierarchicalSubject"))
    assert counts(apply_keyword(photos[:3], "cat", undo)) == (2, 0, 1, 0)
    assert subjects(photos[0]) == read_sidecar(sidecar(photos[0])).words("digiKam:TagsList") == ["beach", "cat"]
    xmp = read_sidecar(sidecar(photos[2]))
    assert xmp.words("lr:hierarchicalSubject") == ["place|beach", "cat"]
    assert not xmp.has("digiKam:TagsList")


def test_the_short_name_is_followed_unless_it_may_be_another_files(photos: list[Path], undo: Path) -> None:
    short = [photo.with_suffix(".xmp") for photo in photos[:2]]
    for path in short:
        path.write_bytes(packet("mine"))
    photos[1].with_suffix(".cr2").write_bytes(b"raw")
    assert counts(apply_keyword(photos[:2], "cat", undo)) == (1, 1, 0, 0)
    assert read_sidecar(short[0]).words("dc:subject") == ["mine", "cat"]
    assert read_sidecar(short[1]).words("dc:subject") == ["mine"]
    assert subjects(photos[1]) == ["mine", "cat"]


BROKEN = {
    "not xml": b"not xml",
    "laughs": b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><x>&b;</x>',
    "empty": b"",
    "latin": packet("x").replace(b">x<", b">\xfc<"),
    "cut": packet("x")[:-60],
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_sidecar_that_cannot_be_read_is_left_alone_and_counted(photos: list[Path], undo: Path, data: bytes) -> None:
    sidecar(photos[0]).write_bytes(data)
    outcome = apply_keyword(photos, "cat", undo)
    assert counts(outcome) == (5, 0, 0, 1)
    assert outcome.facts()["skipped"] == {"sidecars that cannot be read": 1}
    assert sidecar(photos[0]).read_bytes() == data


def test_links_permissions_and_missing_pictures(photos: list[Path], undo: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.xmp"
    target.write_bytes(packet("mine"))
    target.chmod(0o640)
    sidecar(photos[0]).symlink_to(target)
    sidecar(photos[1]).symlink_to(tmp_path / "nowhere.xmp")
    sidecar(photos[2]).symlink_to(photos[2])  # a link to the picture itself
    photos[3].unlink()
    before = photos[2].read_bytes()
    outcome = apply_keyword(photos, "cat", undo)
    assert counts(outcome) == (2, 1, 0, 3)
    assert sidecar(photos[0]).is_symlink()
    assert read_sidecar(target).words("dc:subject") == ["mine", "cat"]
    assert target.stat().st_mode & 0o777 == 0o640
    assert photos[2].read_bytes() == before
    assert not (tmp_path / "nowhere.xmp").exists()
    assert outcome.facts()["skipped"]["pictures that are not there"] == 1


def test_a_read_only_folder_is_counted(photos: list[Path], undo: Path) -> None:
    folder = str(photos[0].parent)
    for words in (["--bind", folder, folder], ["-o", "remount,bind,ro", folder]):
        if subprocess.run(["mount", *words], capture_output=True).returncode:
            pytest.skip("cannot mount a file system here")
    try:
        assert apply_keyword(photos, "cat", undo).facts()["skipped"] == {"in read-only folders": 6}
        assert not undo.exists()
    finally:
        subprocess.run(["umount", folder], check=True)


def test_two_runs_at_once_lose_no_entry(photos: list[Path], undo: Path) -> None:
    before = state(photos)
    with ThreadPoolExecutor(1) as pool:
        with UndoList.opened(undo, "cat") as writes:
            second = pool.submit(apply_keyword, photos[3:], "cat", undo)  # waits for the lock
            time.sleep(0.2)
            data = packet("cat")
            writes.begin(Entry(str(sidecar(photos[0])), None, hashlib.sha256(data).hexdigest(), ["dc:subject"]))
            sidecar(photos[0]).write_bytes(data)
            writes.end()
        assert second.result().created == 3
    assert len(UndoList(undo).entries) == 4
    assert undo_keyword(undo).deleted == 4
    assert state(photos) == before


def test_a_lock_that_others_may_wait_for_is_not_removed(photos: list[Path], undo: Path) -> None:
    apply_keyword(photos, "cat", undo)
    lock = undo.with_name(".undo.sqlite.lock")
    number = lock.stat().st_ino
    undo_keyword(undo)
    assert lock.stat().st_ino == number


def test_the_list_of_another_keyword_and_strange_files_have_a_sentence(photos: list[Path], undo: Path) -> None:
    apply_keyword(photos[:1], "cat", undo)
    with pytest.raises(LikewiseError, match="is the undo list of 'cat', not of 'dog'; choose another"):
        apply_keyword(photos, "dog", undo)
    with pytest.raises(LikewiseError, match="does not exist; expected an undo list"):
        undo_keyword(undo.with_name("nothing"))
    with pytest.raises(LikewiseError, match="is not a journal"):
        undo_keyword(photos[0])
    with pytest.raises(LikewiseError, match="cannot be a keyword"):
        apply_keyword(photos, "a\nb", undo)


def test_a_list_names_nothing_but_sidecars(photos: list[Path], undo: Path) -> None:
    apply_keyword(photos[:1], "cat", undo)
    digest = hashlib.sha256(photos[1].read_bytes()).hexdigest()
    Journal(undo).append([{"sidecar": str(photos[1]), "before": None, "after": digest, "added": []}, [], {"torn": 1}])
    assert UndoList(undo).damaged == 3
    outcome = undo_keyword(undo)
    assert (outcome.deleted, outcome.damaged) == (1, 3)
    assert photos[1].exists()


def test_what_a_killed_run_may_not_have_written_is_left_alone(photos: list[Path], undo: Path) -> None:
    entry = Entry(str(sidecar(photos[0])), None, "0" * 64, ["dc:subject"])
    UndoList(undo, "cat").begin(entry)
    sidecar(photos[0]).write_bytes(packet("cat"))  # by the user
    assert undo_keyword(undo).untouched == 1
    assert subjects(photos[0]) == ["cat"]


@pytest.mark.parametrize("how", ["fail", "die"])
@pytest.mark.parametrize("work", ["apply", "undo"])
def test_whichever_write_fails_or_is_the_last_the_next_run_puts_it_right(
    photos: list[Path], undo: Path, work: str, how: str
) -> None:
    sidecar(photos[0]).write_bytes(packet("mine"))
    before = state(photos)
    steps = {"apply": lambda: apply_keyword(photos[:2], "cat", undo), "undo": lambda: undo_keyword(undo)}
    for number in range(60):
        if work == "undo":
            steps["apply"]()
        ended, came = with_fault(steps[work], number, how)
        assert ended in ((DEAD,) if how == "die" and came else (SUCCESS, SENTENCE))
        if work == "apply":
            steps["apply"]()
            assert subjects(photos[0]) == ["mine", "cat"]
            assert subjects(photos[1]) == ["cat"]
        steps["undo"]()
        assert state(photos) == before  # no temporary file is left either
        if not came:
            return
    raise AssertionError("more writes than expected")


def _apply_or_undo(folder: Path, undo: Path, word: str) -> None:
    if word == "undo":
        undo_keyword(undo)
    else:
        apply_keyword(sorted(folder.glob("*.jpg")), "cat", undo)


def _killed_until_done(folder: Path, undo: Path, word: str, rng: random.Random) -> int:
    """Run a process and kill it when its list has grown by some bytes, until it ends by itself; how often it died."""
    for kills in range(100):
        enough = _size(undo) + rng.randrange(60_000)
        process = FORKED.Process(target=_apply_or_undo, args=(folder, undo, word))
        process.start()
        while process.is_alive() and _size(undo) < enough:
            time.sleep(0.001)
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            assert process.exitcode == 0
            return kills
    raise AssertionError("it never came to its end")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.second
def test_a_thousand_sidecars_killed_at_random_are_all_right_in_the_end(tmp_path: Path) -> None:
    rng, folder, undo = random.Random(time.time_ns()), tmp_path / "photos", tmp_path / "undo.sqlite"
    folder.mkdir()
    for number in range(1_000):
        Image.new("RGB", (2, 2), (number % 256, number // 256, 0)).save(folder / f"{number:04}.jpg")
        if number % 3 == 0:
            (folder / f"{number:04}.jpg.xmp").write_bytes(packet("mine", f"number {number}"))
    photos = sorted(folder.glob("*.jpg"))
    before = state(photos)
    assert _killed_until_done(folder, undo, "apply", rng) > 0
    for number, photo in enumerate(photos):
        assert subjects(photo) == [*(["mine", f"number {number}"] if number % 3 == 0 else []), "cat"]
        assert photo.read_bytes() == before[photo.name]
    assert len(list(folder.iterdir())) == 2_000
    _killed_until_done(folder, undo, "undo", rng)
    assert state(photos) == before
