"""
The paper's Figure 3: compression
=================================

SLR-G mixes the targets by a Gaussian matrix, SLR-C samples rows, both to a size m. As m grows, both approach SLR on all
pairs. ``compress="landmarks"`` is ours: every row against the same m rows, drawn by class.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from likewise import SLR
from likewise.paper import variant

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(normalize(X), y, test_size=0.3, stratify=y, random_state=0)
sizes = [75, 150, 300, 600]


def score(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a small sample interpolates is what the picture shows
        return model.set_params(random_state=0).fit(X_train, y_train).score(X_test, y_test)


curves = {
    "SLR-G-m": [score(variant(f"SLR-G-{m}")) for m in sizes],
    "SLR-C-m": [score(variant(f"SLR-C-{m}")) for m in sizes],
    "landmarks (ours)": [score(SLR(compress="landmarks", compress_size=m)) for m in sizes],
}
everything = {"SLR, all pairs": score(variant("SLR")), "the same, our start": score(SLR())}

figure, axis = plt.subplots(figsize=(6, 3.4))
for name, values in curves.items():
    axis.plot(sizes, values, "o-", label=name)
for number, (name, value) in enumerate(everything.items()):
    axis.axhline(value, color="grey", linestyle=["--", ":"][number], label=name)
axis.set(xscale="log", xlabel="m", ylabel="mAP of held-out digits")
axis.set_xticks(sizes, sizes)
axis.minorticks_off()
axis.legend(fontsize=8)
figure.tight_layout()
plt.show()
