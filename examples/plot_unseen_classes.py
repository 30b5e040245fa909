"""
Classes that nobody labelled
============================

A model learns from some digits and has to rank the others. Methods made for known classes throw away what tells new
ones apart; with ``share`` 0 of what was learned, whole classes are held out to choose what to keep.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from likewise import SimilarityLearner
from likewise.rivals import LDA, RCA, Cosine

X, y = load_digits(return_X_y=True)
X, y = X[:700], y[:700]
methods = {
    "raw cosine": Cosine(),
    "LDA": LDA(),
    "RCA (WCCN)": RCA(),
    "SimilarityLearner": SimilarityLearner(settings={"share": 0.0}, random_state=0),
}

# %%
# Six of the ten digits are learned from, the other four rank each other; three draws.

scores = {name: [] for name in methods}
for draw in range(3):
    known = np.isin(y, np.random.default_rng(draw).permutation(10)[:6])
    for name, method in methods.items():
        scores[name].append(method.fit(X[known], y[known]).score(X[~known], y[~known]))

# %%
# A bar for each draw. On these rows the gain over the raw cosine is small, and LDA, made for known classes, loses.

figure, axis = plt.subplots(figsize=(7, 2.8))
for place, (name, values) in enumerate(scores.items()):
    axis.barh(place + np.array([-0.25, 0, 0.25]), values, height=0.22, color=f"C{place}")
    axis.text(0.01, place, f"{name}: mean {np.mean(values):.3f}", va="center", color="white", weight="bold")
axis.set(yticks=[], xlabel="mAP of digits that were not learned from", ylim=(len(scores) - 0.5, -0.5))
figure.tight_layout()
plt.show()
