"""Whether a learned ranking still knows the picture: altered copies find their original, and a mark moves its item.

usage: python -m benchmarks.near_duplicates PHOTOS STORE      a folder of pictures, and its labelled feature store

The model learns from all labelled rows of the store, and the index holds the same rows: the hardest case, since inside
a class all learned scores are alike. 200 pictures are cropped by 6 %, brightened by a quarter, and saved as JPEG of
quality 40. Then the first result of 40 queries is marked wrong, one at a time.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance
from rich.table import Table

from benchmarks.__main__ import show
from likewise import SimilarityLearner
from likewise.rows.store import FeatureStore
from likewise.search import Index
from likewise.teach import Teacher

PICTURES, QUERIES = 200, 40


def crop(picture: Image.Image) -> Image.Image:
    w, h = picture.size
    return picture.crop((int(0.06 * w), int(0.06 * h), w, h))


def brighten(picture: Image.Image) -> Image.Image:
    return ImageEnhance.Brightness(picture).enhance(1.25)


def recompress(picture: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    picture.save(buffer, "jpeg", quality=40)
    return Image.open(buffer).convert("RGB")


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "cropped by 6 %": crop,
    "brighter": brighten,
    "JPEG 40": recompress,
}


def originals_first(index: Index, features: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """Share of altered pictures whose original comes first, by the raw cosine and by the index."""
    raw = index.search(features, k=1, space="raw").rows[:, 0]
    learned = index.rows_of(index.search(features, k=1).ids[:, 0])
    return float(np.mean(raw == rows)), float(np.mean(learned == rows))


def places_after_a_mark(index: Index, rng: np.random.Generator) -> list[int]:
    """The place of the first result of a query after it was marked wrong, from 1."""
    teacher, places = Teacher(index), []
    for query in rng.choice(len(index), QUERIES, replace=False):
        marked = int(index.search(rows=[query], k=1).rows[0, 0])
        teacher.mark(int(query), marked, False)
        ranked = teacher.learn().index.search(rows=[query], k=len(index) - 1).rows[0]
        places.append(int(np.flatnonzero(ranked == marked)[0]) + 1)
        teacher.undo()
    return places


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    photos, rng = Path(sys.argv[1]), np.random.default_rng(0)
    store = FeatureStore.open(sys.argv[2])
    model = SimilarityLearner(random_state=0).fit(store)
    indexes = {n: Index.build(model, store, n_neighbors=n) for n in (0, "auto")}
    rows = np.sort(rng.choice(len(store.items), PICTURES, replace=False))
    pictures = [Image.open(photos / store.items[row].path).convert("RGB") for row in rows]
    grid = Table("", "raw cosine", "learned", "learned, with neighbours")
    for name, change in CHANGES.items():
        features = indexes[0].embed([np.asarray(change(picture)) for picture in pictures])
        (raw, plain), (_, smoothed) = (originals_first(index, features, rows) for index in indexes.values())
        grid.add_row(f"{name}: original first", *(f"{100 * share:.1f} %" for share in (raw, plain, smoothed)))
    places = {n: places_after_a_mark(index, np.random.default_rng(1)) for n, index in indexes.items()}
    grid.add_row("marked wrong: median place", "", *(f"{np.median(ranks):g}" for ranks in places.values()))
    show(f"{len(store.items):,} pictures, model and index of the same rows: {model.setting_}", grid)


if __name__ == "__main__":
    main()
