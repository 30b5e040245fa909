"""
How sure is it, and where to stop
=================================

Rows held out inside ``fit`` say how likely a pair of a certain score matches, and how many results may be kept so that
a promised share of them is right.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from likewise import SimilarityLearner
from likewise.evaluate.calibration import balanced, reliability
from likewise.search import Index

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(1).normal(scale=6, size=X.shape)  # plain digits are too easy to be unsure of
learned, gallery, asked = np.split(np.random.default_rng(0).permutation(len(y)), [700, 1300])
model = SimilarityLearner(random_state=0).fit(X[learned], y[learned])

# %%
# Do stated probabilities come true? Pairs of rows that the model has not seen, at even odds.

P = model.predict_proba_pairs(X[asked], X[gallery], base_rate=0.5)
same = y[asked][:, None] == y[gallery][None, :]
curve = reliability(P, same, sample_weight=balanced(same))
print(f"expected calibration error: {curve.error:.3f}")

# %%
# A cut-off for each promise: at most this share of the results wrong, on average over queries. It holds over draws of
# the data; in one draw, as here, it can be missed by a point or two.

index = Index.build(model, X[gallery], {"label": y[gallery]})
promises, wrong, kept = [0.02, 0.05, 0.1, 0.2, 0.3], [], []
for promise in promises:
    matches = index.search(X[asked], k=None, at_most_wrong=promise)
    shares = [
        np.mean(y[gallery][m.ids] != label) if len(m.ids) else 0 for m, label in zip(matches, y[asked], strict=True)
    ]
    wrong.append(np.mean(shares))
    kept.append(np.mean([len(match.ids) for match in matches]))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.plot([0, 1], [0, 1], color="grey", linewidth=1)
left.plot(curve.stated, curve.observed, "o-")
left.set(xlabel="stated probability", ylabel="share that matched", title="pairs at even odds")
right.plot([0, 0.3], [0, 0.3], color="grey", linewidth=1, label="the promise")
right.plot(promises, wrong, "o-", label="wrong, in fact")
for x, height, number in zip(promises, wrong, kept, strict=True):
    right.annotate(f"{number:.0f} kept", (x, height), xytext=(4, -12), textcoords="offset points", fontsize=8)
right.set(xlabel="at most this share wrong", ylabel="mean share wrong", title="cut-off")
right.legend()
figure.tight_layout()
plt.show()
