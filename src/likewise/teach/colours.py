"""Colour and light of pictures on a coarse grid: red, dark or sunset are not in the last layer of a network.

They are measured from thumbnails in the background, once, and last in the folder of the index. A concept uses them only
if its own marks are told apart better with them.
"""

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from likewise.errors import LikewiseError
from likewise.search.index import Index
from likewise.search.storage import LESSONS
from likewise.utils.files import atomic_write

MOST_PICTURES = 20_000  # of a larger index colours are not measured: 1,000 pictures take 5 to 50 s
WIDTH = 58
_FILE = "colours.npz"
_SIDE = 32  # pixels that a picture is reduced to
_AT_ONCE = 500  # pictures measured between two times that the file is written


def statistics(pixels: np.ndarray) -> np.ndarray:
    """Light, red - green and blue - yellow on a 4 × 4 grid, saturation and edges on 2 × 2, and two deviations."""
    small = Image.fromarray(pixels).convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    P = np.asarray(small, np.float32) / 255
    light, saturation = P.mean(axis=2), P.max(axis=2) - P.min(axis=2)
    edges = np.hypot(*np.gradient(light))
    hues = P[..., 0] - P[..., 1], P[..., 2] - P[..., :2].mean(axis=2)
    parts = [*(_grid(part, 4) for part in (light, *hues)), _grid(saturation, 2), _grid(edges, 2)]
    return np.concatenate([*parts, [light.std(), saturation.std()]], dtype=np.float32)


def unit_colours(C: np.ndarray) -> np.ndarray:
    """Statistics standardised over the rows that have them, and of unit length; zeros for the others."""
    known = np.asarray(np.isfinite(C).all(axis=1))
    deviation = C[known].std(axis=0)
    C = np.where(known[:, None], (C - C[known].mean(axis=0)) / np.where(deviation > 1e-6, deviation, 1), 0)
    return np.asarray(C / np.maximum(np.linalg.norm(C, axis=1, keepdims=True), 1e-6), np.float32)


def _grid(values: np.ndarray, n: int) -> np.ndarray:
    return values.reshape(n, _SIDE // n, n, _SIDE // n).mean(axis=(1, 3)).ravel()


class Colours:
    """What was measured of the pictures of an index, by the content of their files."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._path = None if index.folder is None else index.folder / LESSONS / _FILE
        self._known: dict[str, np.ndarray] = {}
        with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):  # a damaged file is written again
            if self._path is not None:
                with np.load(self._path, allow_pickle=False) as file:
                    if file["values"].shape[1:] == (WIDTH,):
                        self._known = dict(zip(file["names"].tolist(), file["values"].astype(np.float32), strict=True))

    def rows(self) -> np.ndarray | None:
        """The numbers of all rows, standardised and at unit length, (n, 58); zeros where unknown, None if all are."""
        if not self._known:
            return None
        C, nothing = np.zeros((len(self._index), WIDTH), np.float32), np.full(WIDTH, np.nan, np.float32)
        for row, name in enumerate(self._names()):
            C[row] = self._known.get(name, nothing)
        return unit_colours(C) if np.isfinite(C).any() else None

    def measure(self, thumbnail: Callable[[int], Any], stopping: Callable[[], bool] = lambda: False) -> bool:
        """Measure the pictures that are not known yet, one at a time; says whether there were any.

        `thumbnail` returns the picture of a row as the bytes of a JPEG, None if it cannot be read.
        """
        if self._index.paths is None or len(self._index) > MOST_PICTURES:
            return False
        missing = [(row, name) for row, name in enumerate(self._names()) if name not in self._known]
        for count, (row, name) in enumerate(missing, start=1):
            if stopping():
                break
            data = thumbnail(row)
            if data is not None:
                with Image.open(io.BytesIO(data)) as image:
                    self._known[name] = statistics(np.asarray(image.convert("RGB")))
            if count % _AT_ONCE == 0:
                self._save()
        if missing:
            self._save()
        return bool(missing)

    def _names(self) -> list[str]:
        references = self._index.identities.references(list(range(len(self._index))))
        return [str(reference.hash or reference.id) for reference in references]

    def _save(self) -> None:
        if self._path is None or not self._known:
            return
        names, values = np.array(list(self._known)), np.array(list(self._known.values()), np.float16)
        with suppress(LikewiseError, OSError):  # a folder that cannot be written: they are measured again next time
            self._path.parent.mkdir(exist_ok=True)
            atomic_write(Path(self._path), lambda file: np.savez(file, names=names, values=values))
