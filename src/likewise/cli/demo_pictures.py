"""A folder of pictures for the demo: labels from its folders, features, rows to learn from and rows held out."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise import SLR, SimilarityLearner
from likewise.cli.demonstration import AFTER, BEFORE, DemoData
from likewise.errors import LikewiseError
from likewise.pictures import extract_folder, load_image
from likewise.pictures.folder import find_images
from likewise.pictures.images import shrink
from likewise.rivals import LDA, Cosine, RidgeOneHot
from likewise.rows import FeatureStore
from likewise.rows.store import escape, table_to_csv
from likewise.utils.files import atomic_write
from likewise.utils.wording import plural

STAMPS = Path("/usr/share/tuxpaint/stamps")  # where Debian's tuxpaint-stamps-default puts some 800 pictures
_LEAST = 10  # pictures of a class: three of them are then held out, so that each has two others to find
_LEVELS = 2  # folders that make a label: animals/birds, not animals, and not animals/birds/cartoon
_PLACES = (1, 2, 3, 4, 5, 6, 7, 8)
_VARIANT = re.compile(r"_(mirror|flip|mirror_flip)$")


def extracted(folder: Path, output: Path) -> FeatureStore:
    """Features of the pictures below a folder, with labels; what `output` has from an earlier run is not done again."""
    paths = _without_variants([found.path for found in find_images(folder, [output])[0]])
    labels = folder_labels(paths)
    if len(set(labels) - {""}) < 2:
        raise LikewiseError(
            f"--pictures {folder} has {plural(len(set(labels) - {''}), 'sub-folder')} of {_LEAST} pictures or more: "
            "expected at least two, one for each label"
        )
    table = output / f"{_name(folder)}.csv"
    atomic_write(table, table_to_csv(("path", "label"), zip(map(escape, paths), map(escape, labels), strict=True)))
    store = output / f"{_name(folder)}.features"
    extract_folder(folder, store, labels=table)
    return FeatureStore.open(store)


def _name(folder: Path) -> str:
    return folder.resolve().name or "pictures"


def _without_variants(paths: Sequence[str]) -> list[str]:
    """The paths without mirrored and flipped copies of others: the same picture would be counted twice."""
    stems = {str(Path(path).with_suffix("")) for path in paths}
    plain = {path: _VARIANT.sub("", str(Path(path).with_suffix(""))) for path in paths}
    return [path for path, stem in plain.items() if stem == str(Path(path).with_suffix("")) or stem not in stems]


def folder_labels(paths: Sequence[str]) -> list[str]:
    """The first two folders of each path; "" where fewer than ten pictures share them."""
    labels = ["/".join(path.split("/")[:-1][:_LEVELS]) for path in paths]
    counts = Counter(labels)
    return [label if counts[label] >= _LEAST else "" for label in labels]


def pictures(store: FeatureStore, seed: int) -> DemoData:
    """70 % of each class to learn from, the others held out; pictures without a label are in neither."""
    from sklearn.model_selection import train_test_split

    names = np.array([item.label for item in store.items])
    labelled = np.flatnonzero(names != "")
    learned, held_out = train_test_split(labelled, test_size=0.3, stratify=names[labelled], random_state=seed)
    return DemoData(
        "pictures",
        *(store.features[learned], names[learned], store.features[held_out], names[held_out]),
        image=lambda row: shrink(load_image(store.image_path(held_out[row]), 96), 192),
        places=_PLACES,
        about=_about(store, len(learned), len(held_out), len(set(names[labelled]))),
    )


def _about(store: FeatureStore, n_learned: int, n_held_out: int, n_classes: int) -> str:
    few = len(store) - n_learned - n_held_out
    return (
        f"{len(store):,} pictures became rows of {store.features.shape[1]:,} features by EfficientNet-Lite0. Their "
        f"labels are their folders, {n_classes} of them with {_LEAST} pictures or more; {few:,} in smaller folders "
        f"have no label and take no part. 30 % of each class are held out: {n_learned:,} pictures to learn from, "
        f"{n_held_out:,} held out."
    )


def picture_models(seed: int) -> dict[str, Any]:
    return {
        BEFORE: Cosine(),
        "SLR": SLR(random_state=seed),
        "ridge + cosine": RidgeOneHot(random_state=seed),
        "LDA + cosine": LDA(random_state=seed),
        AFTER: SimilarityLearner(random_state=seed),
    }


def indexed(model: Any, store: FeatureStore) -> Path:
    """An index of all pictures beside their features, ready to be served."""
    from likewise.search import Index

    return Index.build(model, store, neighbours="auto").save(store.path.with_suffix(".index"))
