"""Random Fourier features: an RBF kernel whose features are drawn before any row is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likewise.learn.maths.kernels import Features
from likewise.utils.arrays import dense, like, namespace
from likewise.utils.onnx_graph import Graph


@dataclass(frozen=True)
class RandomFeatures(Features):
    """cos and sin of x·ω for random frequencies ω (Rahimi and Recht, 2007): inner products near exp(-γ ‖x - x′‖²).

    No row is a landmark, so that sums over blocks of rows add up, wherever and whenever the blocks were seen.
    """

    frequencies: Any = None  # (q / 2, d)

    @classmethod
    def drawn(cls, d: int, size: int, gamma: float, rng: np.random.Generator) -> Self:
        """About `size` features; frequencies are orthogonal in groups of d (Yu et al., 2016), which errs less."""
        n, groups = max(size // 2, 1), list[np.ndarray]()
        for first in range(0, n, d):
            many = min(d, n - first)
            Q, R = np.linalg.qr(rng.standard_normal((d, many)))
            groups.append((Q * np.sign(np.diag(R))).T * np.sqrt(rng.chisquare(d, many))[:, None])
        return cls(None, gamma, np.sqrt(2 * gamma) * np.vstack(groups))

    @property
    def is_linear(self) -> bool:
        return False

    def width(self, d: int) -> int:
        return 2 * len(self.frequencies)

    def __call__(self, X: Any) -> Any:
        """Features of unit rows, (n, q): rows of length one, too."""
        angles = dense(X @ like(self.frequencies, X).T)
        xp = namespace(angles)
        return xp.concat([xp.cos(angles), xp.sin(angles)], axis=1) * self._scale

    def metric(self) -> None:
        """Inner products of the features are those of the kernel as they are."""

    def write_onnx(self, graph: Graph, x: str) -> str:
        angles = graph.mapped(x, self.frequencies.T)
        return graph.times(graph.beside([graph.node("Cos", [angles]), graph.node("Sin", [angles])]), self._scale)

    @property
    def _scale(self) -> float:
        return float(len(self.frequencies) ** -0.5)
