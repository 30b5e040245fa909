"""
Digits, before and after
========================

Four queries and their first results, by the cosine of the pixels and by what ``SimilarityLearner`` learned from
other digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from likewise import SimilarityLearner
from likewise.rivals import Cosine

# %%
# Half of the digits are learned from. The others rank each other: nothing that is shown was learned from.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
models = {
    "raw cosine": Cosine().fit(X_train),
    "SimilarityLearner": SimilarityLearner(random_state=0).fit(X_train, y_train),
}
scores = {name: model.score(X_test, y_test) for name, model in models.items()}
print({name: round(float(score), 3) for name, score in scores.items()})

# %%
# Right results are framed green, wrong ones red, at every tenth rank. The first ones are right with both: what learning
# changes is how far that lasts.

ranks = np.arange(0, 80, 10)
queries = [int(np.flatnonzero(y_test == digit)[0]) for digit in (1, 3, 8, 9)]
figure, axes = plt.subplots(len(queries), 2 * len(ranks) + 2, figsize=(11, 3.4))
for row, query in zip(axes, queries, strict=True):
    for side, model in enumerate(models.values()):
        order = np.argsort(-model.similarity(X_test[[query]], X_test)[0])
        found = [query, *order[order != query][ranks]]
        for axis, item in zip(row[side * len(found) : (side + 1) * len(found)], found, strict=True):
            axis.imshow(X_test[item].reshape(8, 8), cmap="gray_r")
            axis.set(xticks=[], yticks=[])
            colour = "black" if item == query else "tab:green" if y_test[item] == y_test[query] else "tab:red"
            for spine in axis.spines.values():
                spine.set(color=colour, linewidth=2)
for side, (name, score) in enumerate(scores.items()):
    figure.text(0.3 + 0.4 * side, 0.95, f"{name}: mAP {score:.3f}", ha="center")
plt.show()
