"""
Learning from clicks
====================

A search log: queries, what they were shown, and what was clicked. No labels. ``PairLDA`` learns from it, and keeps the
raw cosine where held-out queries do not gain.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from likewise import PairLDA
from likewise.evaluate import mean_average_precision
from likewise.rivals import Cosine
from likewise.rows import Relevance

X, y = load_digits(return_X_y=True)
items, queries, new = np.split(np.random.default_rng(0).permutation(len(y)), [900, 1400])

# %%
# A simulated log: each query is shown its 20 nearest items; 60 % of the right ones and 5 % of the others are clicked.

rng = np.random.default_rng(1)
shown = np.argsort(-Cosine().fit(X).similarity(X[queries], X[items]), axis=1)[:, :20]
right = y[items][shown] == y[queries][:, None]
clicked = rng.random(right.shape) < np.where(right, 0.6, 0.05)


def score(model):
    """mAP of queries that are not in the log, by their true digits."""
    return mean_average_precision(model.transform_query(X[new]), model.transform(X[items]), y[new], y[items])


# %%
# More and more of the log. Too little of it is refused: the model then is the raw cosine.

raw = score(Cosine().fit(X))
sizes, found = [30, 60, 120, 250, 500], []
for size in sizes:
    rows, places = np.nonzero(clicked[:size])
    log = Relevance.from_clicks(rows, shown[rows, places], shape=(size, len(items)))
    model = PairLDA(kernel="linear", random_state=0).fit(X[queries[:size]], log, gallery=X[items])
    found.append((score(model), model.learned_))
    print(f"{size} queries: {'learned' if model.learned_ else 'refused'}, mAP {found[-1][0]:.3f}")

figure, axis = plt.subplots(figsize=(6, 3.2))
axis.plot(sizes, [value for value, _ in found], "o-", label="PairLDA")
axis.axhline(raw, color="grey", linestyle="--", label="raw cosine")
axis.set(xscale="log", xlabel="queries in the log", ylabel="mAP of new queries")
axis.set_xticks(sizes, sizes)
axis.minorticks_off()
axis.legend()
figure.tight_layout()
plt.show()
