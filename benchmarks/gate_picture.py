"""The picture of docs/method.md: labelled digits, a gallery that holds other digits too, and what the gate makes of it.

usage: python -m benchmarks.gate_picture [docs/images/gate.png]

Some of the digits 0 to 4 are labelled, and all ten are in the gallery. The map is t-SNE of both, for the picture alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
from sklearn.metrics import roc_auc_score

from likewise.learn.maths.gate import learn_gate
from likewise.utils.arrays import unit_rows

TAUGHT, LABELLED, SEARCHED = 5, 400, 800


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Unit rows and digits of the labelled rows, and of the gallery."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    labelled = order[y[order] < TAUGHT][:LABELLED]
    gallery = np.setdiff1d(order, labelled)[:SEARCHED]
    X = unit_rows(X.astype(np.float32))
    return X[labelled], y[labelled], X[gallery], y[gallery]


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build") / "gate.png"
    L, y, G, digits = drawn()
    gate = learn_gate(L, y, G)
    g, is_taught = gate(G), digits < TAUGHT
    places = TSNE(random_state=0).fit_transform(np.concatenate([L, G]))
    low, high = places.min(axis=0) - 5, places.max(axis=0) + 5
    grid = np.stack(np.meshgrid(*np.linspace(low, high, 120).T), axis=-1)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for axis, rows, colour, title in (
        (left, places[: len(L)], "tab:blue", f"labelled rows: digits 0 to {TAUGHT - 1}"),
        (middle, places[len(L) :], "0.3", "rows of the gallery: all ten digits"),
    ):
        density = gaussian_kde(rows.T, 0.12)(grid.reshape(-1, 2).T).reshape(grid.shape[:2])
        axis.contourf(grid[..., 0], grid[..., 1], density, levels=8, cmap="Blues" if axis is left else "Greys")
        axis.scatter(*rows.T, s=2, color=colour)
        axis.set_title(title, fontsize=10)
    shown = right.scatter(*places[len(L) :].T, c=g, s=6, cmap="coolwarm", vmin=0, vmax=1)
    figure.colorbar(shown, ax=right, label="g")
    right.set_title("probability of a taught class", fontsize=10)
    for axis in (left, middle, right):
        axis.set(xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    figure.savefig(path, dpi=110)
    print(
        f"{path}: share of taught rows {gate.share:.2f}, in truth {is_taught.mean():.2f}; mean g of taught rows "
        f"{g[is_taught].mean():.2f}, of new ones {g[~is_taught].mean():.2f}; AUROC {roc_auc_score(is_taught, g):.3f}"
    )


if __name__ == "__main__":
    main()
