"""
Learning from clicks
====================

A search log: queries, what they were shown, and what was clicked. No labels. ``RelevanceLearner`` learns from it, as
far as the gain of held-out queries is clear.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from likewise import RelevanceLearner
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
# More and more of the log. Too little of it leaves the raw cosine.

raw = score(Cosine().fit(X))
sizes, values = [30, 60, 120, 250, 500], []
for size in sizes:
    rows, places = np.indices(shown[:size].shape).reshape(2, -1)
    seen = {"clicked": clicked[:size].ravel(), "position": places + 1}
    log = Relevance.from_clicks(rows, shown[:size].ravel(), **seen, shape=(size, len(items)))
    model = RelevanceLearner().fit(X[queries[:size]], log, gallery=X[items])
    values.append(score(model))
    print(f"{log.summary}: {'learned' if model.learned_ else 'raw cosine'}, mAP {values[-1]:.3f}")

figure, axis = plt.subplots(figsize=(6, 3.2))
axis.plot(sizes, values, "o-", label="RelevanceLearner")
axis.axhline(raw, color="grey", linestyle="--", label="raw cosine")
axis.set(xscale="log", xlabel="queries in the log", ylabel="mAP of new queries")
axis.set_xticks(sizes, sizes)
axis.minorticks_off()
axis.legend()
figure.tight_layout()
plt.show()
