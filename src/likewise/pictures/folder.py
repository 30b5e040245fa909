"""The images below a folder, and their labels."""

import csv
import os
import re
import stat
import time
import unicodedata
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from likewise.errors import LikewiseError
from likewise.pictures.images import UNSUPPORTED, looks_like_image
from likewise.rows.store import unescape
from likewise.utils.files import StrPath, os_errors

LABELS = ("folders", "keywords", "none")  # where labels come from; anything else is a file of them


class ImageFile(NamedTuple):
    """A file that looks like an image: its path below the folder, and what detects changes: size, time and stamp.

    Two files of one size may have one time of change, as it goes in steps, and then swap their names: the stamp has the
    number of the file and when its name or content last changed. It is "" if that is so recent that the file may change
    again at what counts as the same moment: then it is read again the next time.
    """

    path: str
    size: int
    mtime_ns: int
    stamp: str = ""


class Skipped(NamedTuple):
    """A file that is skipped, the reason, and its kind in a few words, to count by."""

    path: str
    reason: str
    kind: str


def find_images(folder: StrPath, ignore: Collection[StrPath] = ()) -> tuple[list[ImageFile], list[Skipped]]:
    """All images below `folder`, sorted by name, and all other files.

    Hidden names, XMP sidecars and the paths in `ignore` are ignored. Links to folders are followed after all real
    folders and each folder is read once, so cycles of links end.
    """
    walk = _FolderWalk(Path(folder), ignore)
    walk.run()

    def by_bytes(entry: ImageFile | Skipped) -> bytes:  # which does not depend on the locale
        return os.fsencode(entry.path)

    return sorted(walk.images, key=by_bytes), sorted(walk.skipped, key=by_bytes)


_TICK_NS = 20_000_000  # more than a step of the clock of files, which is 10 ms at most
_READ_ALREADY = "is a link to a folder that has been read already", "linked to a folder read already"


class _FolderWalk:
    def __init__(self, root: Path, ignore: Collection[StrPath]) -> None:
        self.root, self.images, self.skipped = root, list[ImageFile](), list[Skipped]()
        self.ignored = {os.path.realpath(path) for path in ignore}
        self.ignored_names = {os.path.basename(path) for path in self.ignored}
        self.seen: set[tuple[int, int]] = set()
        self.folders: deque[str] = deque([""])
        self.links: deque[str] = deque()

    def run(self) -> None:
        if not self.root.exists():
            raise LikewiseError(f"folder {self.root} does not exist")
        if not self.root.is_dir():
            raise LikewiseError(f"{self.root} is not a folder")
        if not os.access(self.root, os.R_OK | os.X_OK):
            raise LikewiseError(f"folder {self.root} cannot be read: permission denied")
        time.sleep(_TICK_NS / 1e9)  # for files that were written just before
        while self.folders or self.links:
            linked = not self.folders
            self._read_folder((self.links if linked else self.folders).popleft(), linked)

    def _read_folder(self, relative: str, linked: bool) -> None:
        full = self.root / relative
        try:
            facts = os.stat(full)
            if (facts.st_dev, facts.st_ino) in self.seen:
                if linked:
                    self.skipped.append(Skipped(relative, *_READ_ALREADY))
                return
            self.seen.add((facts.st_dev, facts.st_ino))
            entries = sorted(os.scandir(full), key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            reason = f"the folder cannot be read: {error.strerror or error}"
            self.skipped.append(Skipped(relative, reason, "unreadable"))
            return
        for entry in entries:
            if not entry.name.startswith(".") and not entry.name.lower().endswith(".xmp"):
                self._take(entry, f"{relative}/{entry.name}" if relative else entry.name)

    def _take(self, entry: os.DirEntry[str], relative: str) -> None:
        try:
            facts = entry.stat()
            linked = entry.is_symlink()
        except OSError as error:
            broken = entry.is_symlink() and not os.path.exists(entry.path)
            reason = "is a broken link" if broken else f"cannot be read: {error.strerror or error}"
            self.skipped.append(Skipped(relative, reason, "linked to nothing" if broken else "unreadable"))
            return
        if entry.name in self.ignored_names and os.path.realpath(entry.path) in self.ignored:
            return
        if stat.S_ISDIR(facts.st_mode):
            (self.links if linked else self.folders).append(relative)
        elif not stat.S_ISREG(facts.st_mode):
            self.skipped.append(Skipped(relative, "is not a regular file", "not a regular file"))
        elif looks_like_image(entry.path):
            recent = abs(time.time_ns() - facts.st_ctime_ns) < _TICK_NS
            stamp = "" if recent else f"{facts.st_ino}:{facts.st_ctime_ns}"
            self.images.append(ImageFile(relative, facts.st_size, facts.st_mtime_ns, stamp))
        else:
            self.skipped.append(Skipped(relative, *UNSUPPORTED))


def labels_from_folders(paths: Sequence[str]) -> list[str]:
    """The first folder of each path; "" for an image in no folder.

    If everything is in one folder that holds only folders, as in an unpacked archive, the next level is used.
    """
    parts = [path.split("/")[:-1] for path in paths]
    depth = _wrapping_depth(parts)
    return [p[depth] if len(p) > depth else "" for p in parts]


def _wrapping_depth(parts: Sequence[Sequence[str]]) -> int:
    """The number of folders that contain everything."""
    depth = 0
    while parts and all(len(p) > depth + 1 for p in parts) and len({p[depth] for p in parts}) == 1:
        depth += 1
    return depth


@dataclass(frozen=True)
class LabelFolders:
    """The folders that would be labels: pictures in each, whether they look like labels, and a sentence about them."""

    counts: dict[str, int]
    look_like_labels: bool
    sentence: str

    @property
    def names(self) -> list[str]:
        return list(self.counts)


def label_folders(paths: Sequence[str]) -> LabelFolders:
    """What a person would see in the folders of these pictures: classes, or only a place where they are kept."""
    parts = [path.split("/")[:-1] for path in paths]
    depth = _wrapping_depth(parts)
    around = parts[0][depth - 1] if depth else ""
    counts = dict(sorted(Counter(label for label in labels_from_folders(paths) if label).items()))
    if not counts:
        return LabelFolders(counts, False, "no folders")
    n, sizes = len(counts), list(counts.values())
    look_like_labels = (
        n >= 2
        and sum(sizes) >= 0.8 * len(paths)
        and sum(not names_a_class(name, around) for name in counts) <= 0.2 * n
        and sum(size >= 3 for size in sizes) > n / 2  # two is the minimum to learn anything
        and n <= len(paths) / 2
    )
    span = f"{min(sizes):,} to {max(sizes):,}" if min(sizes) < max(sizes) else f"{max(sizes):,}"
    each = " each" if n > 1 else ""
    sentence = f"{n:,} folder{'s' * bool(each)} with {span} picture{'s' * (max(sizes) > 1)}{each}"
    return LabelFolders(counts, look_like_labels, sentence)


def labels_from_file(file: StrPath, folder: StrPath, paths: Iterable[str]) -> tuple[dict[str, str], list[Skipped]]:
    """Labels by path from a CSV of paths and labels, and problems: images without a label, names without an image."""
    present = set(paths)
    labels_of: dict[str, set[str]] = {}
    strangers: set[str] = set()
    for name, label in _label_rows(Path(file)):
        path = _resolve(name, Path(folder), present)
        if path in present:
            labels_of.setdefault(path, set()).add(label)
        else:
            strangers.add(path)
    where = Path(file).name
    missing = f"{where} lists it, but there is no such image", "in the label file but not in the folder"
    problems = [Skipped(path, *missing) for path in sorted(strangers)]
    unlabelled = f"{where} gives it no label", "without a label"
    problems += [Skipped(path, *unlabelled) for path in sorted(present - set(labels_of))]
    for path, labels in labels_of.items():
        if len(labels) > 1:
            reason = f"{where} gives it {len(labels)} labels: {', '.join(sorted(labels))}"
            problems.append(Skipped(path, reason, "with several labels"))
    return {path: labels.pop() for path, labels in labels_of.items() if len(labels) == 1}, problems


def read_list(file: StrPath, folder: StrPath, paths: Iterable[str]) -> list[str]:
    """The images listed in a text file, one per line; a name that is not among `paths` is an error."""
    present = set(paths)
    names = [line for line in _read_text(Path(file)).split("\n") if line.strip()]
    listed = [_resolve(name.rstrip("\r"), Path(folder), present) for name in names]
    missing = [name for name, path in zip(names, listed, strict=True) if path not in present]
    if missing:
        raise LikewiseError(f"{file} lists {len(missing)} images that are not in {folder}, the first is {missing[0]!r}")
    if not listed:
        raise LikewiseError(f"{file} lists no image")
    return sorted(set(listed), key=os.fsencode)


def _resolve(name: str, folder: Path, present: Collection[str]) -> str:
    """The path below the folder: as written, unescaped as in `items.csv`, or resolved from elsewhere."""
    for candidate in (name, unescape(name)):
        tidy = candidate if candidate in present else os.path.normpath(candidate)
        if tidy in present:
            return tidy
        for whole in (candidate, os.path.join(os.path.realpath(folder), candidate)):
            relative = os.path.relpath(os.path.realpath(whole), os.path.realpath(folder)).replace(os.sep, "/")
            if relative in present:
                return relative
    return name


_PATHS = ("path", "file", "filename", "image", "name")
_LABELS = ("label", "class", "category", "target", "y")


def _label_rows(file: Path) -> list[tuple[str, str]]:
    try:
        rows = [row for row in csv.reader(_read_text(file).splitlines(keepends=True)) if row]
    except csv.Error as error:
        raise LikewiseError(f"labels {file} cannot be read as CSV: {error}") from error
    if not rows:
        raise LikewiseError(f"labels {file} is empty")
    columns = [cell.strip().lower() for cell in rows[0]]
    path = next((columns.index(name) for name in _PATHS if name in columns), None)
    label = next((columns.index(name) for name in _LABELS if name in columns), None)
    if path is None or label is None:
        path, label = 0, 1  # no header: the first two columns
    else:
        rows = rows[1:]
    short = next((number for number, row in enumerate(rows, 1) if len(row) <= max(path, label)), None)
    if short is not None:
        raise LikewiseError(f"labels {file} has no label in row {short}; expected two columns, path and label")
    return [(row[path], unescape(row[label])) for row in rows]


def _read_text(file: Path) -> str:
    with os_errors(f"cannot read {file}"):
        data = file.read_bytes()
    return data.decode("utf-8-sig", "surrogateescape")


# -- Which names of folders describe what a picture shows, and which only when, by what or where it was stored ---------

# In English, German, French, Spanish, Italian, Portuguese and Dutch; without accents, since names are compared so.
_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec"
    "|januar|februar|marz|maerz|mai|juni|juli|oktober|dezember|janner"
    "|janvier|fevrier|mars|avril|juin|juillet|aout|septembre|octobre|novembre|decembre"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    "|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    "|janeiro|fevereiro|marco|maio|junho|julho|setembro|outubro|novembro|dezembro"
    "|januari|februari|maart|mei|augustus"
)
_SEASONS = "spring|summer|autumn|fall|winter|fruhling|fruehling|sommer|herbst|printemps|ete|automne|hiver|verano|estate"

_STORAGE = {
    "dcim", "camera", "cameras", "camera roll", "camera uploads", "kamera", "camara", "fotocamera", "webcam",
    "phone", "mobile", "smartphone", "cell", "handy", "telefon", "telephone", "telefono", "telefone", "telefoon",
    "iphone", "ipad", "android", "samsung", "galaxy", "huawei", "xiaomi", "gopro", "drone", "dji",
    "whatsapp", "whatsapp images", "telegram", "telegram images", "signal", "instagram", "facebook", "snapchat",
    "messenger", "viber", "twitter", "screenshot", "screenshots", "screen shots", "bildschirmfoto", "bildschirmfotos",
    "captures", "captures d ecran", "capturas", "capturas de pantalla", "schermafbeeldingen",
    "download", "downloads", "telechargements", "descargas", "heruntergeladen",
    "backup", "backups", "sicherung", "sauvegarde", "copia", "archive", "archiv", "old", "alt",
    "import", "imports", "imported", "export", "exports", "inbox", "temp", "tmp", "trash", "upload", "uploads",
    "misc", "miscellaneous", "various", "verschiedenes", "sonstiges", "divers", "varios", "varie", "diversen",
    "unsorted", "unsortiert", "to sort", "a trier", "new", "neu",
    "new folder", "neuer ordner", "nouveau dossier", "nueva carpeta", "nuova cartella", "nova pasta", "nieuwe map",
    "untitled", "untitled folder", "unbenannt", "sans titre", "sin titulo", "senza titolo",
    "photo", "photos", "picture", "pictures", "my pictures", "image", "images", "bild", "bilder", "foto", "fotos",
    "immagini", "imagenes", "imagens", "afbeeldingen", "saved pictures", "google photos", "icloud", "dropbox",
    "onedrive", "album", "albums", "alben", "scan", "scans", "sd card", "sdcard", "card", "usb", "disk", "folder",
    "favorites", "favourites", "favoriten", "favoris", "selects", "picks", "edited", "edits", "originals", "raw",
    "raws", "jpg", "jpeg", "png", "heic", "finals", "final", "roll", "film",
    "train", "training", "test", "val", "valid", "validation", "dev", "holdout",
}  # fmt: skip

_DATE = re.compile(
    r"(19|20)\d\d($|[ \d].*)"  # 2023, 2023 05, 20230501, 2019 Summer
    rf"|(\d{{1,2}} )?({_MONTHS})( \d{{1,2}})?( (19|20)?\d\d)?"  # 01 January, May, Mai 23
    rf"|({_SEASONS}) (19|20)?\d\d"  # Summer 2019; summer alone may be what a picture shows
    r"|\d{1,2} \d{1,2} (19|20)?\d\d"  # 01 05 2023
)
# 100APPLE, 101_PANA, 100CANON: three digits and five signs, as cameras write them
_CAMERA = re.compile(r"\d{3}[a-z0-9_]{5}")


def names_a_class(name: str, around: str = "") -> bool:
    """Whether a folder's name may say what its pictures show; `around` is the name of the folder it lies in."""
    plain = _plain(name)
    if _CAMERA.fullmatch(name.casefold()) or _DATE.fullmatch(plain):
        return False
    if re.fullmatch(r"\d{1,2}", plain) and _DATE.fullmatch(_plain(around)):
        return False  # the months of a year; digits alone may be classes
    # In the list, as it is or with a number: iPhone 12, New folder (3), backup 2023.
    return re.sub(r"[ \d()]+$", "", plain) not in _STORAGE and not plain.startswith(("iphone ", "whatsapp ", "backup "))


def _plain(name: str) -> str:
    """Lower case without accents, with spaces for separators."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[\s_\-.,'’]+", " ", letters).strip()
