"""A photo library: a folder of pictures, with its features and its index next to it, built and updated.

`PHOTOS.features` and `PHOTOS.index` are next to `PHOTOS`; nothing is written into the folder of pictures. The index
stores in `source` where its labels came from and what its model has learned: a second call asks nothing, takes in what
is new, and learns again only if much has changed.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.learn.cosine import Cosine
from likewise.learn.similarity import SimilarityLearner
from likewise.pictures.base import ImageExtractor, make_extractor
from likewise.pictures.folder import LABELS, LabelFolders, find_images, label_folders
from likewise.pictures.images import FORMAT_NAMES
from likewise.pictures.pipeline import Progress, Summary, extract_folder
from likewise.rows.store import FeatureStore, is_ours, is_store, unescape
from likewise.search.index import Index
from likewise.search.storage import is_free, is_index, read_facts
from likewise.teach import save_index
from likewise.utils.files import StrPath
from likewise.utils.wording import plural

EXTRACTOR = "efficientnet-lite0"
REFIT_SHARE = 0.1  # of the rows learned from, or of their classes: more changes than that are worth learning again


@dataclass(frozen=True)
class LibraryPlaces:
    """Where pictures, features and index are; `photos` is None if there are only features."""

    photos: Path | None
    features: Path
    index: Path


@dataclass(frozen=True)
class BuiltIndex:
    """What `PhotoLibrary.build` did: nothing if the index was up to date, else an index, perhaps with a new model."""

    folder: Path
    written: bool = False
    learned: bool = False
    n_learned: int = 0
    held_out: dict[str, float] | None = None


def update_library(
    path: StrPath,
    output: StrPath | None = None,
    *,
    labels: str | None = None,
    extractor: ImageExtractor | str | None = None,
    refit: bool = False,
    ask: Callable[[LabelFolders], bool] = lambda seen: True,
    progress: Progress | None = None,
) -> BuiltIndex:
    """Make the index of a folder of pictures, or of features, or bring it up to date; unchanged ones are left alone.

    With labels a similarity is learned from them, otherwise pictures are compared by the cosine of their features.

    Parameters
    ----------
    path : folder of pictures, or a feature store
    output : folder of the index, with the features next to it; by default both are next to `path`
    labels : "folders", "keywords" (of XMP and IPTC), "none" or a CSV of paths and labels; by default what was chosen
        last, else what `ask` answers
    extractor : an extractor or its name; by default that of the existing features, else efficientnet-lite0
    refit : learn again, even if little has changed
    ask : called the first time, with folders that look like labels: whether they are used
    progress : of the extraction, as in `extract_folder`
    """
    library = PhotoLibrary(path, output)
    if library.places.photos is not None:
        library.extract(library.choose_labels(labels, ask), extractor, progress)
    elif labels is not None:
        raise LikewiseError(f"{path} is a folder of features: likewise features --labels chooses its labels")
    return library.build(refit)


def library_places(path: StrPath, output: StrPath | None = None) -> LibraryPlaces:
    """The places of a library, checked: writable, outside of the pictures, and not taken by anything else."""
    folder = Path(path)
    if not folder.is_dir():
        raise LikewiseError(f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}")
    photos = None if is_store(folder) else folder
    index = _sibling(folder, ".index") if output is None else Path(output)
    features = folder if photos is None else _sibling(folder, ".features")
    if photos is not None and output is not None:
        features = index.with_suffix(".features")
    if features == index:
        raise LikewiseError(f"--output {index} is the name of the features; choose another for the index")
    for place, is_free_or_ours in (*([] if photos is None else [(features, is_ours)]), (index, is_free)):
        if photos is not None and Path(os.path.realpath(place)).is_relative_to(os.path.realpath(photos)):
            raise LikewiseError(
                f"{place} is inside {photos}, and nothing is written among your pictures; choose another --output"
            )
        if place.exists() and not (place.is_dir() and is_free_or_ours(place)):
            raise LikewiseError(f"{place} is there already and is something else; choose another place with --output")
        nearest = next(parent for parent in (place, *place.absolute().parents) if parent.exists())
        if not os.access(nearest, os.W_OK):
            raise LikewiseError(f"cannot write {place}: {nearest} is read-only; choose another place with --output")
    if is_index(index) and _source(index) is None:
        raise LikewiseError(
            f"{index} was made by likewise index, with a model of its own: likewise serve {index} opens it, and "
            "--output makes another"
        )
    return LibraryPlaces(photos, features, index)


def _sibling(folder: Path, suffix: str) -> Path:
    """PHOTOS.index of PHOTOS, and of PHOTOS.features; of `.` too, which has its name from the whole path."""
    whole = Path(os.path.abspath(folder))
    if not whole.name:
        raise LikewiseError(f"{folder} has no folder around it for the index; choose one with --output")
    parent = folder.parent if folder.name == whole.name else whole.parent
    return parent / (whole.name.removesuffix(".features") + suffix)


def _source(index: Path) -> dict[str, Any] | None:
    """What the index remembers of its library; None without an index."""
    return read_facts(index).get("source") if is_index(index) else None


class PhotoLibrary:
    """A folder of pictures or features, and the steps to its index: choose labels, extract, build.

    Parameters
    ----------
    path, output : as in `update_library`
    tell : called with sentences for the user
    working : context manager factory for slow steps; takes a description
    verbose : 1 shows a progress bar while indexing
    """

    def __init__(
        self,
        path: StrPath,
        output: StrPath | None = None,
        tell: Callable[[str], object] = lambda sentence: None,
        working: Callable[[str], AbstractContextManager[None]] = lambda words: nullcontext(),
        verbose: int = 0,
    ) -> None:
        self.places = library_places(path, output)
        self.tell, self.working, self.verbose = tell, working, verbose
        self.source = _source(self.places.index)
        self._store = FeatureStore.open(self.places.features) if is_store(self.places.features) else None

    @property
    def store(self) -> FeatureStore:
        if self._store is None:
            raise LikewiseError(f"{self.places.features} is not there yet: extract comes before build")
        return self._store

    @property
    def photos(self) -> Path:
        if self.places.photos is None:
            raise LikewiseError(f"{self.places.features} is a folder of features, not of pictures")
        return self.places.photos

    @property
    def n_skipped(self) -> int:
        """How many files the last extraction skipped."""
        return 0 if self._store is None else int(self._store.meta.get("n_skipped", 0))

    # -- features -----------------------------------------------------------------------------------------------------

    def choose_labels(self, labels: str | None = None, ask: Callable[[LabelFolders], bool] = lambda seen: True) -> str:
        """The requested labels, else the last choice, else folders if they look like labels and the user agrees."""
        if labels is not None:
            return labels if labels in LABELS else os.path.realpath(labels)
        meta = {} if self._store is None else self._store.meta
        if remembered := meta.get("labels") or (self.source or {}).get("labels"):
            return unescape(remembered)
        images, _ = find_images(self.photos)
        if not images:
            raise LikewiseError(f"{self.photos} contains no image ({FORMAT_NAMES})")
        seen = label_folders([image.path for image in images])
        return "folders" if seen.look_like_labels and ask(seen) else "none"

    def extract(
        self, labels: str, extractor: ImageExtractor | str | None = None, progress: Progress | None = None
    ) -> Summary:
        """Features of all pictures; only new and changed ones are computed."""
        chosen = self._extractor(extractor)
        summary = extract_folder(self.photos, self.places.features, chosen, labels, progress=progress)
        self._store = FeatureStore.open(self.places.features)
        return summary

    def _extractor(self, extractor: ImageExtractor | str | None) -> ImageExtractor:
        """The requested extractor, which must be that of existing features; by default that of the features."""
        chosen = make_extractor(extractor) if isinstance(extractor, str) else extractor
        if self._store is None:
            return chosen or make_extractor(EXTRACTOR)
        request = self._store.meta.get("request") or {"name": "something else"}
        root = self._store.root
        if root is not None and root.is_dir() and not root.samefile(self.photos):
            raise self._taken(f"of {root}")
        name, parameters = request["name"], request.get("parameters")
        if parameters is None or (chosen is not None and chosen.request() != {"name": name, "parameters": parameters}):
            raise self._taken(f"by {name}")
        # The fitted state of the extractor is in the store, where the pipeline reads it.
        others = {key: value for key, value in parameters.items() if key != "model"}
        return chosen or make_extractor(f"{name}:{parameters['model']}" if "model" in parameters else name, **others)

    def _taken(self, what: str) -> LikewiseError:
        return LikewiseError(f"{self.places.features} holds features {what}; choose another place with --output")

    # -- index --------------------------------------------------------------------------------------------------------

    def build(self, refit: bool = False) -> BuiltIndex:
        """Build the index if anything has changed; fit a model only if there is none, or too much has changed."""
        content = _digest(self.store)
        if not refit and self.source is not None and self.source.get("content") == content:
            return BuiltIndex(self.places.index)
        model = None if refit else self._model_of_index()
        if model is not None:
            assert self.source is not None
            return self._write(model, self.source.get("learned", {}), content)
        counts = Counter(_labels(self.store))
        if _is_learnable(counts):
            y = np.array([item.label for item in self.store.items])
            with self.working(f"learning from {plural(counts.total(), 'labelled picture')}"):
                fitted = SimilarityLearner().fit(_labelled_rows(self.store), y[y != ""])
            done = self._write(fitted, dict(sorted(counts.items())), content)
            return replace(done, learned=True, held_out=fitted.held_out_)
        if counts:
            pictures, labels = plural(counts.total(), "picture"), plural(len(counts), "label")
            few = f"{pictures} of {labels} are too few to learn from"
            one = f"all labelled pictures have the label {next(iter(counts))!r}"
            self.tell(f"{one if len(counts) == 1 else few}: pictures are compared as they are, without learning")
        return self._write(Cosine().fit(self.store.features), {}, content)

    def _write(self, model: SimilarityModel, learned: dict[str, int], content: str) -> BuiltIndex:
        n_learned = sum(learned.values())
        built = Index.build(model, self.store, n_neighbors="auto", verbose=self.verbose)
        built.source = {
            "features": os.path.relpath(self.store.path, self.places.index),
            "labels": self.store.meta.get("labels"),
            "learned": learned,
            "n_learned": n_learned,
            "content": content,
        }
        with self.working(f"writing {self.places.index}"):
            save_index(built, self.places.index)
        return BuiltIndex(self.places.index, written=True, n_learned=n_learned)

    def _model_of_index(self) -> SimilarityModel | None:
        """The model of the existing index, unless it has to be fitted (again); the reason is printed."""
        if self.source is None:
            return None
        now, before = Counter(_labels(self.store)), Counter(self.source.get("learned", {}))
        if _is_learnable(now) != bool(before):
            return None
        model = Index.load(self.places.index, verify=False).model  # lessons are kept by the folder
        reason = _much_changed(model, self.store, now, before) if before else None
        if reason is not None:
            self.tell(f"learning again: {reason}")
        elif before:
            self.tell("the model is kept: little has changed since it learned (--refit learns again)")
        return model if reason is None else None


def _labelled_rows(store: FeatureStore) -> np.ndarray:
    return np.asarray(store.features[np.array([bool(item.label) for item in store.items])], np.float32)


def _labels(store: FeatureStore) -> list[str]:
    return [item.label for item in store.items if item.label]


def _is_learnable(counts: Counter[str]) -> bool:
    """Whether at least two labels have two pictures each: a held-out picture needs another of its label."""
    return sum(count >= 2 for count in counts.values()) >= 2


def _much_changed(model: SimilarityModel, store: FeatureStore, now: Counter[str], before: Counter[str]) -> str | None:
    """Why a model should be fitted again, or None: too many other classes, other labels or other pictures."""
    others = (now.keys() - before.keys()) | (before.keys() - now.keys())
    if len(others) > REFIT_SHARE * len(before):
        return f"{plural(len(others), 'label')} of {len(before):,} changed"
    n, known = before.total(), int(model.learned_from(_labelled_rows(store)).sum())
    changed = max(now.total() - known, n - known, (now - before).total(), (before - now).total())
    return f"{changed:,} of {plural(n, 'labelled picture')} changed" if changed > REFIT_SHARE * n else None


def _digest(store: FeatureStore) -> str:
    """A digest of everything an index takes from a store: pictures, their places and labels, the extractor."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (str(store.meta.get("root")), str(store.meta.get("labels")), str(store.meta.get("extractor"))):
        digest.update(part.encode() + b"\0")
    for item in store.items:
        digest.update(repr((item.path, item.label, item.hash or (item.size, item.mtime_ns))).encode())
    return digest.hexdigest()
