"""The handwritten digits of scikit-learn, which need no files: the demo's second table, and its fallback."""

from typing import Any

import numpy as np

from likewise import SLR, SimilarityLearner
from likewise.cli.demonstration import AFTER, BEFORE, DemoData
from likewise.rivals import LDA, Cosine, Euclid

# A held-out digit has about 53 others of its class: these places show the whole of a good ranking, not only its top.
_PLACES = (1, 2, 3, 5, 10, 20, 30, 40, 50)


def digits(seed: int) -> DemoData:
    """70 % of the digits to learn from, the others held out."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, Q, y, y_q = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    images = np.rint(255 - Q.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # dark on white
    about = (
        f"The digits of scikit-learn, 8 x 8 pixels, not preprocessed, were split 70/30 by class: {len(X):,} to learn "
        f"from and {len(Q):,} held out. Raw pixels find near-duplicates first and lose the digit further down, which "
        "P@1 rewards and mAP does not."
    )
    return DemoData("digits", X, y, Q, y_q, images.__getitem__, _PLACES, about)


def digit_models(seed: int) -> dict[str, Any]:
    return {
        "Euclid": Euclid(),
        BEFORE: Cosine(),
        "LDA + cosine": LDA(random_state=seed),
        "SLR-Fixed": SLR(adaptive=False, random_state=seed),
        "SLR": SLR(random_state=seed),
        AFTER: SimilarityLearner(random_state=seed),
    }
