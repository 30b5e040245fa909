"""Extract a folder of images to a feature store: resumable, in order, with the same bytes after interruptions."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.features.base import ImageExtractor, load_extractor, make_extractor, map_groups
from likewise.features.folder import ImageFile, Skipped, find_images, labels_from_file, labels_from_folders, read_list
from likewise.features.images import MAX_PIXELS, ImageError, load_image
from likewise.features.journal import ExtractionJournal, commit, recover
from likewise.tables import store as stores
from likewise.tables.store import EXTRACTOR, FeatureStore, Item, escape, meta_to_json
from likewise.utils.files import StrPath, atomic_write, locked

Progress = Callable[[str, int, int], None]
# Raw rows, the files they are of, and the files skipped with the reason.
Computed = tuple[np.ndarray, list[ImageFile], list[tuple[ImageFile, str]]]
BATCH = 64  # images between two syncs: half a second for EfficientNet on two cores
_BLOCK = 1024  # rows copied at a time


@dataclass
class Summary:
    """What a run over a folder did."""

    store: str
    n_items: int
    n_features: int
    n_classes: int
    n_new: int
    n_reused: int
    n_removed: int
    n_skipped: int
    seconds: float
    images_per_second: float


def extract_folder(
    folder: StrPath,
    output: StrPath,
    extractor: ImageExtractor | str = "efficientnet-lite0",
    labels: StrPath | None = None,
    fit_on: StrPath | None = None,
    dtype: str | None = None,
    max_pixels: int = MAX_PIXELS,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Write the features of all images below `folder` to the store `output`; only new and changed images are computed.

    Parameters
    ----------
    folder : images at any depth; the first folder below it is the label
    output : folder of the store
    extractor : an extractor, or its name for `make_extractor`
    labels : CSV of paths and labels, instead of folder names
    fit_on : text file of paths, one per line: the images that the extractor learns from
    dtype : "float32" or "float16"; by default that of the extractor
    max_pixels : larger images are skipped
    overwrite : replace a store that was made with other settings, instead of raising an error
    progress : called with a stage, the number of images done and their total
    """
    extractor = make_extractor(extractor) if isinstance(extractor, str) else extractor
    if dtype not in (None, "float32", "float16"):
        raise LikewiseError(f"dtype={dtype!r} is not supported; expected float32 or float16")
    run = _Extraction(Path(folder), Path(output), extractor, dtype, max_pixels, progress or (lambda *_: None))
    run.scan(labels, fit_on)
    with locked(run.store):
        return run.go(overwrite)


@dataclass
class _Extraction:
    """One run: scan, resume, compute, finish."""

    folder: Path
    store: Path
    extractor: ImageExtractor
    dtype: str | None
    max_pixels: int
    progress: Progress

    def __post_init__(self) -> None:
        self.work = self.store / ".work"
        self.began = time.monotonic()

    def scan(self, labels: Any, fit_on: Any) -> None:
        """Find the images and their labels; drop images without a label in the label file."""
        self.progress("looking for images", 0, 0)
        ignore = [path for path in (self.store, labels, fit_on) if path is not None]
        self.found, self.skipped = find_images(self.folder, ignore)
        paths = [found.path for found in self.found]
        if not paths:
            raise LikewiseError(f"{self.folder} contains no image (jpg, png, webp, gif, bmp, tiff)")
        if labels is None:
            self.labels = dict(zip(paths, labels_from_folders(paths), strict=True))
        else:
            self.labels, problems = labels_from_file(labels, self.folder, paths)
            self.skipped += problems
            self.found = [found for found in self.found if found.path in self.labels]
            if not self.found:
                raise LikewiseError(f"labels {labels} has no label for any of the {len(paths)} images in {self.folder}")
        self.fit_on = None if fit_on is None else read_list(fit_on, self.folder, self.labels)

    def go(self, overwrite: bool) -> Summary:
        recover(self.store)
        self._open_previous(overwrite)
        self._ready_extractor()
        todo = self._left_to_do()
        for number, batch in enumerate(self._batches(todo)):
            self.journal.append(*batch)
            self.progress("extracting", min((number + 1) * BATCH, len(todo)), len(todo))
        return self._finish(len(todo))

    def request(self) -> dict[str, Any]:
        """The settings of the run; a store made with others is not resumed."""
        listed = None if self.fit_on is None else "\0".join(map(escape, self.fit_on)).encode()
        return {
            **self.extractor.request(),
            "fit_on": None if listed is None else hashlib.sha256(listed).hexdigest(),
            # distinguishes model files; an extractor that has yet to learn has none
            "source": self.extractor.checksum() if self.extractor.__sklearn_is_fitted__() else None,
        }

    def _open_previous(self, overwrite: bool) -> None:
        self.extractor.prepare()
        self.asked = self.request()
        self.previous = self._matching_store(overwrite)
        if self.previous is None:
            for name in ("meta.json", "features.npy", "items.csv", "skipped.csv", EXTRACTOR):
                (self.store / name).unlink(missing_ok=True)
        asked = meta_to_json({**self.asked, "dtype": self.dtype, "max_pixels": self.max_pixels})
        if not _same(self.work / "request.json", asked):
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir()
            atomic_write(self.work / "request.json", asked)

    def _matching_store(self, overwrite: bool) -> FeatureStore | None:
        """The existing store, if it was made with the same settings."""
        if not (self.store / "meta.json").exists():
            return None
        try:
            store = FeatureStore.open(self.store)
        except LikewiseError:
            if overwrite:
                return None
            raise
        if store.meta.get("request") == self.asked and self.dtype in (None, store.meta["dtype"]):
            return store
        if overwrite:
            return None
        raise LikewiseError(
            f"{self.store} was made by another extractor or with other settings; "
            "choose another output, or --overwrite to start again"
        )

    def _ready_extractor(self) -> None:
        """Load the extractor of the store or of the interrupted run, or fit a new one."""
        if self.extractor.__sklearn_is_fitted__():
            return
        for file in (self.store / EXTRACTOR, self.work / EXTRACTOR):
            if file.exists():
                n_jobs, self.extractor = self.extractor.n_jobs, load_extractor(file)
                self.extractor.n_jobs = n_jobs
                self.extractor.prepare()
                return
        self.progress("learning from images", 0, 0)
        self.extractor.fit_images([self.folder / path for path in self._fit_paths()])
        self.extractor.save(self.work / EXTRACTOR)

    def _fit_paths(self) -> list[str]:
        return [found.path for found in self.found] if self.fit_on is None else self.fit_on

    def _left_to_do(self) -> list[ImageFile]:
        header = {"extractor": self.extractor.checksum(), "request": self.asked, "max_pixels": self.max_pixels}
        self.journal = ExtractionJournal(self.work, header, self.extractor.raw_width(), self.extractor.raw_dtype)
        done = set(self.journal.files())
        if self.previous is not None:
            done |= {ImageFile(item.path, item.size, item.mtime_ns) for item in self.previous.items}
        return [found for found in self.found if found not in done]

    def _batches(self, todo: Sequence[ImageFile]) -> Iterator[Computed]:
        """Rows, files done and files skipped of each batch; groups of images run on all threads."""
        step = min(self.extractor.group, BATCH)
        groups = [todo[i : i + step] for i in range(0, len(todo), step)]
        computed = map_groups(self._group, groups, self.extractor.n_jobs)
        while batch := list(islice(computed, BATCH // step)):
            rows, done, skipped = zip(*batch, strict=True)
            yield np.concatenate(rows), list(chain(*done)), list(chain(*skipped))

    def _group(self, group: Sequence[ImageFile]) -> Computed:
        images: list[np.ndarray] = []
        done: list[ImageFile] = []
        skipped: list[tuple[ImageFile, str]] = []
        for found in group:
            try:
                image = load_image(self.folder / found.path, self.extractor.at_least(), self.max_pixels)
                self.extractor.check_image(image)
            except ImageError as error:
                skipped.append((found, str(error)))
                continue
            images.append(image)
            done.append(found)
        blank = np.empty((0, self.extractor.raw_width()), self.extractor.raw_dtype)
        return (self.extractor.rows(images) if images else blank), done, skipped

    def _finish(self, n_new: int) -> Summary:
        """Write the finished files if anything has changed, and return the summary."""
        now = set(self.found)
        self.skipped += [Skipped(found.path, reason) for found, reason in self.journal.skipped() if found in now]
        self.skipped.sort(key=lambda entry: (os.fsencode(entry.path), entry.reason))
        places = self._places(now)
        self._learn_from_rows(places)
        files = self._texts(sorted(places, key=lambda found: os.fsencode(found.path)))
        if not places:
            atomic_write(self.store / "skipped.csv", files["skipped.csv"])
            raise LikewiseError(
                f"none of the {len(self.found)} images in {self.folder} could be used; see {self.store}/skipped.csv"
            )
        kept = self.previous is not None and len(places) == len(self.previous) and min(places.values()) >= 0
        if kept and all(_same(self.store / name, data) for name, data in files.items()):
            shutil.rmtree(self.work, ignore_errors=True)
        else:
            self._write(places, files)
        return self._summary(places, n_new)

    def _places(self, now: set[ImageFile]) -> dict[ImageFile, int]:
        """The row of each file: its number in the store, or −1 − its number in the journal."""
        before = [] if self.previous is None else self.previous.items
        old = {ImageFile(item.path, item.size, item.mtime_ns): row for row, item in enumerate(before)}
        new = {found: -1 - batch.start - i for batch in self.journal.batches for i, found in enumerate(batch.done)}
        return {found: place for found, place in {**old, **new}.items() if found in now}

    def _learn_from_rows(self, places: dict[ImageFile, int]) -> None:
        if self.extractor.rows_fitted() or not places:
            return
        self.progress("learning from features", 0, 0)
        wanted = set(self._fit_paths())
        numbers = sorted(-1 - place for found, place in places.items() if place < 0 and found.path in wanted)
        if not numbers:
            raise LikewiseError("none of the images to learn from could be used")
        self.extractor.fit_rows(self.journal.rows(), np.array(numbers))

    def _texts(self, order: Sequence[ImageFile]) -> dict[str, bytes]:
        items = [Item(found.path, self.labels[found.path], found.size, found.mtime_ns) for found in order]
        meta = {
            "extractor": self.extractor.describe(),
            "request": self.asked,
            "root": escape(os.path.realpath(self.folder)),
            "n_skipped": len(self.skipped),
            **stores.describe(items, self.extractor.n_features_out(), self._out_dtype()),
        }
        skipped = ((escape(entry.path), escape(entry.reason)) for entry in self.skipped)
        return {
            "items.csv": stores.items_to_csv(items),
            "meta.json": meta_to_json(meta),
            "skipped.csv": stores.table_to_csv(("path", "reason"), skipped),
        }

    def _out_dtype(self) -> np.dtype[Any]:
        if self.dtype is None and self.previous is not None:
            return self.previous.features.dtype
        return np.dtype(self.dtype or self.extractor.feature_dtype())

    def _write(self, places: dict[ImageFile, int], files: dict[str, bytes]) -> None:
        new = self.work / "new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        self._write_features(new / "features.npy", places)
        for name, data in files.items():
            atomic_write(new / name, data)
        if not (self.store / EXTRACTOR).exists():
            self.extractor.save(new / EXTRACTOR)
        commit(self.store)

    def _write_features(self, file: Path, places: dict[ImageFile, int]) -> None:
        order = sorted(places, key=lambda found: os.fsencode(found.path))
        shape = (len(order), self.extractor.n_features_out())
        out = np.lib.format.open_memmap(file, "w+", self._out_dtype(), shape)
        sources = np.array([places[found] for found in order])
        if self.previous is not None:
            kept = np.flatnonzero(sources >= 0)
            for part in np.split(kept, range(_BLOCK, len(kept), _BLOCK)):
                out[part] = self.previous.features[sources[part]]
        target = {-1 - int(source): row for row, source in enumerate(sources) if source < 0}
        rows = self.journal.rows()
        for batch in self.journal.batches:
            self.progress("writing", batch.start, self.journal.n_rows)
            numbers = range(batch.start, batch.start + len(batch.done))
            finished = self.extractor.finish(rows[numbers.start : numbers.stop])
            largest = np.abs(finished).max(initial=0)
            if largest > np.finfo(out.dtype).max:
                raise LikewiseError(f"a feature of {largest:.3g} does not fit in {out.dtype.name}; use float32")
            for number in numbers:
                if number in target:
                    out[target[number]] = finished[number - numbers.start]
        out.flush()

    def _summary(self, places: dict[ImageFile, int], n_new: int) -> Summary:
        seconds = time.monotonic() - self.began
        store = FeatureStore.open(self.store)
        reused = sum(place >= 0 for place in places.values())
        before = 0 if self.previous is None else len(self.previous)
        return Summary(
            store=str(self.store),
            n_items=len(store),
            n_features=store.features.shape[1],
            n_classes=store.meta["n_classes"],
            n_new=len(places) - reused,
            n_reused=reused,
            n_removed=before - reused,
            n_skipped=len(self.skipped),
            seconds=round(seconds, 3),
            images_per_second=round(n_new / max(seconds, 1e-9), 2),
        )


def _same(path: Path, data: bytes) -> bool:
    return path.exists() and path.read_bytes() == data
