"""
Your own method in the comparison
=================================

Anything with ``fit`` and ``transform`` takes part in ``likewise.compare``: same splits, same queries, paired tests.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

import likewise

X, y = load_digits(return_X_y=True)


class Centroids(BaseEstimator):
    """Cosines to the class means, centred."""

    def fit(self, X, y):
        self.means_ = normalize(np.array([X[y == label].mean(axis=0) for label in np.unique(y)]))
        self.offset_ = (normalize(X) @ self.means_.T).mean(axis=0)
        return self

    def transform(self, X):
        return normalize(normalize(X) @ self.means_.T - self.offset_)


# %%
# 700 digits, of which 30 % are searched.

found = likewise.compare(
    X[:700],
    y[:700],
    methods=["cosine", "lda", "ridge", "anchored-linear"],
    models={"centroids (mine)": Centroids()},
    unseen=False,
    mixed=False,
)
print(found.recommendation())

# %%
# mAP with the bootstrap interval over queries.

outcomes = found.seen.ranked[::-1]
figure, axis = plt.subplots(figsize=(7, 2.8))
for place, outcome in enumerate(outcomes):
    low, high = outcome.interval
    mine = outcome.label == "centroids (mine)"
    axis.plot([low, high], [place, place], color="C1" if mine else "C0", linewidth=3)
    axis.plot(outcome.score, place, "o", color="C1" if mine else "C0")
axis.set(yticks=range(len(outcomes)), yticklabels=[outcome.label for outcome in outcomes], xlabel="mAP")
figure.tight_layout()
plt.show()
