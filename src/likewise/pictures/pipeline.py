"""Extract a folder of images to a feature store: resumable, in order, with the same bytes after interruptions."""

import hashlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.pictures import folder as folders
from likewise.pictures.base import ImageExtractor, load_extractor, make_extractor, map_groups, n_workers
from likewise.pictures.decoding import Decoders
from likewise.pictures.folder import ImageFile, Skipped, find_images
from likewise.pictures.images import FORMAT_NAMES, MAX_PIXELS, ImageError, read_file
from likewise.pictures.keywords import labels_from_keywords
from likewise.pictures.records import ExtractionJournal, KnownRows, ReadFile, SkippedFile, content_hash, date_taken
from likewise.rows import store as stores
from likewise.rows.store import EXTRACTOR, FEATURES, ITEMS, REQUEST, SKIPPED, STORE, FeatureStore, escape, is_store
from likewise.utils.files import StrPath, atomic_write, link, locked, make_folder, os_errors, reserve
from likewise.utils.versions import META

Progress = Callable[[str, int, int], None]
# Raw rows, the files they are of, files whose content has a row already, and the files skipped with the reason.
Computed = tuple[np.ndarray, list[ReadFile], list[ReadFile], list[SkippedFile]]
BATCH = 64  # images between two syncs: half a second for EfficientNet on two cores
_BLOCK = 1024  # rows copied at a time


@dataclass
class Summary:
    """What a run over a folder did.

    `n_reused` counts all rows taken from the store; `n_renamed` those of them that have a new path, renamed or copied;
    `skipped` counts the files skipped by reason, the most frequent first. `n_several_keywords` counts the pictures
    whose label is one of several keywords.
    """

    store: str
    n_items: int
    n_features: int
    n_classes: int
    n_new: int
    n_reused: int
    n_renamed: int
    n_removed: int
    n_skipped: int
    skipped: dict[str, int]
    seconds: float
    images_per_second: float
    n_several_keywords: int = 0


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

    A renamed, moved or copied file keeps the features of its content.

    Parameters
    ----------
    folder : images at any depth
    output : folder of the store
    extractor : an extractor, or its name for `make_extractor`
    labels : "folders" (the default: the first folder below `folder`), "keywords" (of XMP and IPTC), "none", or a CSV of
        paths and labels
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
    stores.check_free(run.store)
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
        self.work = self.store / stores.WORK
        self.began = time.monotonic()
        self.n_computed = self.n_several = 0

    def scan(self, labels: Any, fit_on: Any) -> None:
        """Find the images and their labels; drop images without a label in the label file."""
        self.progress("looking for images", 0, 0)
        file = None if labels in (None, *folders.LABELS) else labels
        self.labelled_by = escape(os.path.realpath(file)) if file is not None else labels or "folders"
        ignore = [path for path in (self.store, file, fit_on) if path is not None]
        self.images, self.skipped = find_images(self.folder, ignore)
        paths = [image.path for image in self.images]
        if not paths:
            raise LikewiseError(f"{self.folder} contains no image ({FORMAT_NAMES})")
        if file is not None:
            self.labels, problems = folders.labels_from_file(file, self.folder, paths)
            self.skipped += problems
            self.images = [image for image in self.images if image.path in self.labels]
            if not self.images:
                raise LikewiseError(f"labels {file} has no label for any of the {len(paths)} images in {self.folder}")
        elif labels == "keywords":
            self.labels, self.n_several, unreadable = labels_from_keywords(self.folder, paths, self.progress)
            self.skipped += unreadable
        else:
            names = [""] * len(paths) if labels == "none" else folders.labels_from_folders(paths)
            self.labels = dict(zip(paths, names, strict=True))
        self.fit_on = None if fit_on is None else folders.read_list(fit_on, self.folder, self.labels)

    def go(self, overwrite: bool) -> Summary:
        STORE.clean(self.store)
        self._open_previous(overwrite)
        self._ready_extractor()
        todo = self._left_to_do()
        with Decoders(n_workers(self.extractor.n_jobs)) as self.decoders:
            for number, batch in enumerate(self._batches(todo)):
                self.journal.append(*batch)
                self.n_computed += len(batch[0])
                self.progress("extracting", min((number + 1) * BATCH, len(todo)), len(todo))
        return self._finish()

    def _open_previous(self, overwrite: bool) -> None:
        self.extractor.prepare()
        listed = None if self.fit_on is None else "\0".join(map(escape, self.fit_on)).encode()
        self.settings = {  # a store made with others is not resumed
            **self.extractor.request(),
            "fit_on": None if listed is None else hashlib.sha256(listed).hexdigest(),
            # distinguishes model files; an extractor that has yet to learn has none
            "source": self.extractor.checksum() if self.extractor.__sklearn_is_fitted__() else None,
        }
        self.previous = self._matching_store(overwrite)
        request = STORE.facts_to_json({**self.settings, "dtype": self.dtype, "max_pixels": self.max_pixels})
        if not _same(self.work / REQUEST, request):
            shutil.rmtree(self.work, ignore_errors=True)
            make_folder(self.work)
            atomic_write(self.work / REQUEST, request)

    def _matching_store(self, overwrite: bool) -> FeatureStore | None:
        """The existing store, if it was made with the same settings."""
        if not is_store(self.store):
            return None
        with suppress(LikewiseError) if overwrite else nullcontext():
            store = FeatureStore.open(self.store)
            if store.meta.get("request") == self.settings and self.dtype in (None, store.meta["dtype"]):
                return store
            raise LikewiseError(
                f"{self.store} was made by another extractor or with other settings; "
                "choose another output, or --overwrite to start again"
            )
        return None

    def _ready_extractor(self) -> None:
        """Load the extractor of the store or of the interrupted run, or fit a new one."""
        if self.extractor.__sklearn_is_fitted__():
            return
        of_store = None if self.previous is None else self.previous.extractor_file
        for file in (of_store, self.work / EXTRACTOR):
            if file is not None and file.exists():
                n_jobs, self.extractor = self.extractor.n_jobs, load_extractor(file)
                self.extractor.n_jobs = n_jobs
                self.extractor.prepare()
                return
        self.progress("learning from images", 0, 0)
        self.extractor.fit_images([self.folder / path for path in self._fit_paths()])
        self.extractor.save(self.work / EXTRACTOR)

    def _fit_paths(self) -> list[str]:
        return [image.path for image in self.images] if self.fit_on is None else self.fit_on

    def _left_to_do(self) -> list[ImageFile]:
        header = {"extractor": self.extractor.checksum(), "request": self.settings, "max_pixels": self.max_pixels}
        self.journal = ExtractionJournal(self.work, header, self.extractor.raw_width(), self.extractor.raw_dtype)
        items = [] if self.previous is None else self.previous.items
        self.stored = KnownRows(items, {image.path for image in self.images})
        batches = self.journal.batches
        done = {read.file for batch in batches for read in batch.done}
        done |= {entry.file for batch in batches for entry in batch.skipped}
        done |= {read.file for batch in batches for read in batch.reused if self.stored.row_of(read) is not None}
        done |= {read.file for read, _ in self.stored.unread()}
        return [image for image in self.images if image not in done]

    def _batches(self, todo: Sequence[ImageFile]) -> Iterator[Computed]:
        """Rows, and files done, reused and skipped, of each batch; groups of images run on all threads."""
        step = min(self.extractor.group, BATCH)
        groups = [todo[i : i + step] for i in range(0, len(todo), step)]
        computed = map_groups(self._group, groups, self.extractor.n_jobs)
        while batch := list(islice(computed, BATCH // step)):
            rows, done, reused, skipped = zip(*batch, strict=True)
            yield np.concatenate(rows), list(chain(*done)), list(chain(*reused)), list(chain(*skipped))

    def _group(self, group: Sequence[ImageFile]) -> Computed:
        images: list[np.ndarray] = []
        done: list[ReadFile] = []
        reused: list[ReadFile] = []
        skipped: list[SkippedFile] = []
        for image in group:
            try:
                data = read_file(self.folder / image.path)
                read = ReadFile(image, content_hash(data), date_taken(data))
                if self.stored.row_of(read) is not None:
                    reused.append(read)
                    continue
                decoded = self.decoders.load(data, self.extractor.at_least(), self.max_pixels)
                self.extractor.check_image(decoded)
                images.append(decoded)
                done.append(read)
            except ImageError as error:
                skipped.append(SkippedFile(image, str(error), error.kind))
        blank = np.empty((0, self.extractor.raw_width()), self.extractor.raw_dtype)
        return (self.extractor.rows(images) if images else blank), done, reused, skipped

    def _finish(self) -> Summary:
        """Write the finished files if anything has changed, and return the summary."""
        now = set(self.images)
        skipped = (entry for batch in self.journal.batches for entry in batch.skipped)
        self.skipped += [Skipped(file.path, *why) for file, *why in skipped if file in now]
        self.skipped.sort(key=lambda entry: (os.fsencode(entry.path), entry.reason))
        places = self._places(now)
        self._learn_from_rows(places)
        files, meta = self._texts(list(places))
        if not places:
            list_ = (self.work if is_store(self.store) else self.store) / SKIPPED  # what is there stays as it is
            atomic_write(list_, files[SKIPPED])
            raise LikewiseError(f"none of the {len(self.images)} images in {self.folder} could be used; see {list_}")
        files[META] = STORE.facts_to_json(meta)
        previous = self.previous
        same_rows = previous is not None and list(places.values()) == list(range(len(previous)))
        same_texts = previous is not None and all(_same(previous.version / name, files[name]) for name in files)
        if not (same_rows and same_texts):
            self._write(places, files, same_rows)
        shutil.rmtree(self.work, ignore_errors=True)
        return self._summary(places)

    def _places(self, now: set[ImageFile]) -> dict[ReadFile, int]:
        """The row of each file, in the order of paths: its number in the store, or −1 − its number in the journal."""
        stored, batches = self.stored, self.journal.batches
        known = (read for batch in batches for read in batch.reused)
        reused = ((read, row) for read in known if (row := stored.row_of(read)) is not None)
        new = ((read, -1 - batch.start - i) for batch in batches for i, read in enumerate(batch.done))
        places = {read.file: (read, row) for read, row in chain(stored.unread(), reused, new) if read.file in now}
        return dict(sorted(places.values(), key=lambda place: os.fsencode(place[0].file.path)))

    def _learn_from_rows(self, places: dict[ReadFile, int]) -> None:
        if self.extractor.rows_fitted() or not places:
            return
        self.progress("learning from features", 0, 0)
        wanted = set(self._fit_paths())
        numbers = sorted(-1 - place for read, place in places.items() if place < 0 and read.file.path in wanted)
        if not numbers:
            raise LikewiseError("none of the images to learn from could be used")
        self.extractor.fit_rows(self.journal.rows(), np.array(numbers))

    def _texts(self, order: Sequence[ReadFile]) -> tuple[dict[str, bytes], dict[str, Any]]:
        """The files of text, and what meta.json says."""
        items = [
            stores.Item(file.path, self.labels[file.path], file.size, file.mtime_ns, content, taken, file.stamp)
            for file, content, taken in order
        ]
        meta = {
            "extractor": self.extractor.describe(),
            "request": self.settings,
            "root": escape(os.path.realpath(self.folder)),
            "labels": self.labelled_by,
            "n_skipped": len(self.skipped),
            **stores.describe(items, self.extractor.n_features_out(), self._out_dtype()),
        }
        skipped = ((escape(entry.path), escape(entry.reason)) for entry in self.skipped)
        texts = {ITEMS: stores.items_to_csv(items), SKIPPED: stores.table_to_csv(("path", "reason"), skipped)}
        return texts, meta

    def _out_dtype(self) -> np.dtype[Any]:
        if self.dtype is None and self.previous is not None:
            return self.previous.features.dtype
        return np.dtype(self.dtype or self.extractor.feature_dtype())

    def _write(self, places: dict[ReadFile, int], files: dict[str, bytes], same_rows: bool) -> None:
        previous = self.previous
        with STORE.replace(self.store) as new:
            if previous is not None and same_rows:  # other labels, names or dates leave the features alone
                link(previous.version / FEATURES, new / FEATURES)
            else:
                self._write_features(new / FEATURES, np.array(list(places.values())))
            for name, data in files.items():
                atomic_write(new / name, data)
            if previous is not None and (previous.version / EXTRACTOR).is_file():
                link(previous.version / EXTRACTOR, new / EXTRACTOR)
            else:
                self.extractor.save(new / EXTRACTOR)
            stores.write_checksums(new)

    def _write_features(self, file: Path, sources: np.ndarray) -> None:
        shape = (len(sources), self.extractor.n_features_out())
        with os_errors(f"cannot write {file}", "; run the same command again to resume"):
            out = np.lib.format.open_memmap(file, "w+", self._out_dtype(), shape)
            reserve(file)
        if self.previous is not None:
            reused = np.flatnonzero(sources >= 0)
            for part in np.split(reused, range(_BLOCK, len(reused), _BLOCK)):
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

    def _summary(self, places: dict[ReadFile, int]) -> Summary:
        seconds = time.monotonic() - self.began
        store = FeatureStore.open(self.store)
        reused = {read.file.path: row for read, row in places.items() if row >= 0}
        return Summary(
            store=str(self.store),
            n_items=len(store),
            n_features=store.features.shape[1],
            n_classes=store.meta["n_classes"],
            n_new=len(places) - len(reused),
            n_reused=len(reused),
            n_renamed=len(reused.keys() - self.stored.paths),
            n_removed=len(self.stored.items) - len(set(reused.values())),
            n_skipped=len(self.skipped),
            skipped=dict(Counter(entry.kind for entry in self.skipped).most_common()),
            seconds=round(seconds, 3),
            images_per_second=round(self.n_computed / max(seconds, 1e-9), 2),
            n_several_keywords=self.n_several,
        )


def _same(path: Path, data: bytes) -> bool:
    return path.exists() and path.read_bytes() == data
