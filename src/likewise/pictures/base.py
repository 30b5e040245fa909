"""Extractors: scikit-learn transformers from images to rows, saved without pickle; and the simplest, the pixels."""

import copy
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from likewise.errors import LikewiseError
from likewise.learn.model_file import load_model, save_model
from likewise.pictures import EXTRACTORS
from likewise.pictures.images import LUMA, MAX_PIXELS, ImageError, as_sources, centre_crop, load_image
from likewise.utils.files import StrPath, append_synced, cache_folder, os_errors, reserve
from likewise.utils.threads import Item, Result, in_order, n_cores, single_threaded_blas

MOST_SIDE = 8192  # pixels of a side that an extractor may ask for: a row of 200 million numbers


class ImageExtractor(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Images in, rows of features out.

    X is a list of paths, arrays or Pillow images, or one array (n, height, width[, channels]). A subclass computes raw
    rows from images (`rows`) and, if these are not yet the features, features from raw rows (`finish`). It learns from
    images in `fit_images` and from raw rows in `fit_rows`, so that a run over a folder reads each image only once.
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = False  # whether there is anything to fit
    group: ClassVar[int] = 4  # images per task of a worker
    raw_dtype: ClassVar[Any] = np.float32
    # Parameters that do not change the features: not part of the checksum.
    _incidental: ClassVar[frozenset[str]] = frozenset({"n_jobs"})

    n_jobs: int | None
    _live_width: int

    # -- scikit-learn interface ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the extractor needs from the images X; y is ignored."""
        self._fit_rows_of(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> np.ndarray:
        """Fit to X and return its features, reading every image once."""
        return self.finish(self._fit_rows_of(X))

    def transform(self, X: Any) -> np.ndarray:
        """Features of the images X, float32, shape (n, d)."""
        check_is_fitted(self)
        return self.finish(self._rows_of(as_sources(X)))

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.requires_fit = self.learns
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Sessions and other live objects are left out and created again when needed."""
        return {key: value for key, value in super().__getstate__().items() if not key.startswith("_live")}

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def at_least(self) -> int | None:
        """Smallest side in pixels that a large JPEG may be decoded to."""
        return None

    def fit_images(self, sources: Sequence[Any]) -> None:
        """Learn from images what is needed to compute raw rows."""

    def rows(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Raw rows of decoded images; called from several threads."""
        raise NotImplementedError

    def fit_rows(self, rows: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Learn what `finish` needs from raw rows: those with the given numbers, or all."""

    def finish(self, rows: np.ndarray) -> np.ndarray:
        """Features of raw rows."""
        return np.asarray(rows, dtype=np.float32)

    def raw_width(self) -> int:
        return self.n_features_out()

    def n_features_out(self) -> int:
        """Width of a feature row; for a model, known once it is loaded."""
        self.prepare()
        return int(self._live_width)

    def feature_dtype(self) -> Any:
        return np.float32

    def images_fitted(self) -> bool:
        """Whether `fit_images` is done, or not needed."""
        return True

    def rows_fitted(self) -> bool:
        """Whether `fit_rows` is done, or not needed."""
        return True

    def __sklearn_is_fitted__(self) -> bool:
        return self.images_fitted() and self.rows_fitted()

    # -- identity and files -------------------------------------------------------------------------------------------

    def checksum(self) -> str:
        """SHA-256 of the class, its parameters and everything learned: equal checksums mean equal features."""
        self.prepare()
        digest = hashlib.sha256(json.dumps(self.request(), sort_keys=True).encode())
        for key, value in sorted(vars(self).items()):
            if key.endswith("_") and isinstance(value, np.ndarray):
                digest.update(f"{key} {value.dtype.str} {value.shape}".encode())
                digest.update(np.ascontiguousarray(value).data)
        return digest.hexdigest()

    def request(self) -> dict[str, Any]:
        """The name of the extractor and the parameters that change its features, as plain JSON."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in self._incidental}
        plain = json.dumps(parameters, default=lambda v: v.item() if isinstance(v, np.generic) else str(v))
        return {"name": self.name, "parameters": json.loads(plain)}

    def describe(self) -> dict[str, Any]:
        """Description of the extractor for `meta.json`."""
        return {**self.request(), "class": type(self).__name__, "sha256": self.checksum()}

    def save(self, path: StrPath) -> Path:
        """Write the extractor and everything it has learned to one file, safetensors and JSON without pickle."""
        self.prepare()
        plain = copy.copy(self)
        for name, value in self._for_file().items():
            setattr(plain, name, value)
        if self.program() and not _was_used(self):
            with suppress(OSError):  # where nothing can be stored, --trust is needed
                cache_folder().mkdir(parents=True, exist_ok=True)
                append_synced(cache_folder() / _KNOWN, f"{_digest(self)}\n".encode())
        return save_model(plain, path)

    def program(self) -> bytes:
        """What this extractor runs that is not of this package: a model, or what names it."""
        return b""

    def is_shipped(self) -> bool:
        """Whether that is the model of an installed package."""
        return False

    def _for_file(self) -> dict[str, Any]:
        """Parameters as stored in the file, without anything specific to this machine."""
        return {"n_jobs": None}

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read an extractor written by `save`."""
        kinds = {name: kind for name, kind in _kinds().items() if issubclass(kind, cls)}
        return load_model(path, kinds.get, " or ".join(sorted(kinds)))

    def prepare(self) -> None:
        """Load and check models and parameters before the first image, so that errors occur here, not in a worker."""

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _fit_rows_of(self, X: Any) -> np.ndarray:
        sources = as_sources(X)
        self.fit_images(sources)
        rows = self._rows_of(sources)
        self.fit_rows(rows)
        return rows

    def _rows_of(self, sources: Sequence[Any]) -> np.ndarray:
        self.prepare()
        out = scratch_rows((len(sources), self.raw_width()), self.raw_dtype)
        groups = [range(i, min(i + self.group, len(sources))) for i in range(0, len(sources), self.group)]

        def work(numbers: range) -> tuple[range, np.ndarray]:
            return numbers, self.rows([self._decoded(sources[i], i) for i in numbers])

        for numbers, rows in map_groups(work, groups, self.n_jobs):
            out[numbers.start : numbers.stop] = rows
        return out

    def _decoded(self, source: Any, number: int) -> np.ndarray:
        try:
            image = load_image(source, self.at_least(), MAX_PIXELS)
            self.check_image(image)
        except ImageError as error:
            where = f" ({source})" if isinstance(source, str | os.PathLike) else ""
            raise LikewiseError(f"image {number} of X{where} {error}") from error
        return image

    def check_image(self, image: np.ndarray) -> None:
        """Raise `ImageError` for an image that the extractor cannot use."""


class Pixels(ImageExtractor):
    """The central square of each image at `size` × `size` pixels, in 0..1, flattened.

    Parameters
    ----------
    size : side in pixels
    colour : three channels, or only brightness
    n_jobs : number of threads; None uses all cores
    """

    name: ClassVar[str] = "pixels"

    def __init__(self, size: int = 32, colour: bool = True, n_jobs: int | None = None) -> None:
        self.size = size
        self.colour = colour
        self.n_jobs = n_jobs

    def prepare(self) -> None:
        if not isinstance(self.size, int | np.integer) or not 1 <= self.size <= MOST_SIDE:
            raise LikewiseError(f"size={self.size!r} is not a size; expected pixels, 1 to {MOST_SIDE:,}")
        if not isinstance(self.colour, bool | np.bool_):
            raise LikewiseError(f"colour={self.colour!r} is neither True nor False")

    def rows(self, images: Sequence[np.ndarray]) -> np.ndarray:
        small = np.stack([centre_crop(image, (self.size, self.size)) for image in images]) / np.float32(255)
        return (small if self.colour else small @ LUMA).reshape(len(images), -1)

    def at_least(self) -> int | None:
        return int(self.size)

    def n_features_out(self) -> int:
        self.prepare()
        return int(self.size) ** 2 * (3 if self.colour else 1)


def scratch_rows(shape: tuple[int, int], dtype: Any, in_memory: int = 1 << 28) -> np.ndarray:
    """An empty array: in memory if it is small, otherwise in a temporary file that is deleted with it."""
    if shape[0] * shape[1] * np.dtype(dtype).itemsize <= in_memory:
        return np.empty(shape, dtype)
    what = f"cannot keep {shape[0]:,} rows in {tempfile.gettempdir()}"
    with (
        os_errors(what, "; set TMPDIR to a folder with space"),
        tempfile.NamedTemporaryFile(prefix="likewise-") as file,
    ):
        rows = np.memmap(file, dtype, "w+", shape=shape)
        reserve(Path(file.name))
    return rows


def n_workers(n_jobs: int | None) -> int:
    """Number of threads: `n_jobs`, or all cores available to this process."""
    if n_jobs is not None and not (isinstance(n_jobs, int | np.integer) and n_jobs >= 1):
        raise LikewiseError(f"n_jobs={n_jobs} is not a number of threads; expected 1 or more, or None for all cores")
    return n_jobs or n_cores()


def map_groups(work: Callable[[Item], Result], tasks: Iterable[Item], n_jobs: int | None = None) -> Iterator[Result]:
    """The results of `work`, in the order of the tasks, with at most three tasks per thread in progress.

    Decoding, resizing, onnxruntime and BLAS release the GIL, so threads keep all cores busy, and one group is decoded
    while another is computed. BLAS has one thread per worker: one image per core is faster than one on all cores.
    """
    n = n_workers(n_jobs)
    with single_threaded_blas():
        yield from in_order(work, tasks, n, 3 * n)


def make_extractor(name: str, **parameters: Any) -> ImageExtractor:
    """An extractor by its name, as in `likewise.pictures.EXTRACTORS`: "pixels", "onnx:MODEL.onnx"."""
    kind, _, argument = name.partition(":")
    kinds = {k.name: k for k in _kinds().values()}
    if kind not in kinds or bool(argument) != (kind in ("onnx", "timm")):
        raise LikewiseError(f"unknown extractor {name!r}; expected {', '.join(usage for _, usage, _ in EXTRACTORS)}")
    if argument:
        parameters["model"] = argument
    unknown = sorted(set(parameters) - set(signature(kinds[kind]).parameters))
    if unknown:
        raise LikewiseError(f"extractor {kind} has no parameter {', '.join(unknown)}")
    return kinds[kind](**parameters)


def load_extractor(path: StrPath, trust: bool = False) -> ImageExtractor:
    """Read a saved extractor of any class; one that runs a model of others has to be known here, or trusted."""
    extractor = ImageExtractor.load(path)
    if not trust and not is_known(extractor):
        raise LikewiseError(
            f"{path} runs a model that was never used on this machine, and may take any memory and time; expected "
            "--trust, or trust=True, to run it all the same"
        )
    return extractor


def is_known(extractor: ImageExtractor) -> bool:
    """Whether an extractor runs nothing but code and models of installed packages, or what was saved here before."""
    return not extractor.program() or _was_used(extractor) or extractor.is_shipped()


def _was_used(extractor: ImageExtractor) -> bool:
    try:
        return _digest(extractor) in (cache_folder() / _KNOWN).read_text("utf-8", "replace").split()
    except OSError:
        return False


_KNOWN = "extractors"  # in the cache: a line for each model that ran here


def _digest(extractor: ImageExtractor) -> str:
    return hashlib.sha256(extractor.program()).hexdigest()


def _kinds() -> dict[str, type[ImageExtractor]]:
    import likewise.pictures

    return {kind: getattr(likewise.pictures, kind) for kind, _, _ in EXTRACTORS}
