"""The figures published in the paper, for comparison."""

from __future__ import annotations

__all__ = ["MEAN_AVERAGE_PRECISION", "MINUTES"]

# Tables 1 and 2: mAP in per cent and its standard deviation over five splits.
MEAN_AVERAGE_PRECISION: dict[str, dict[str, tuple[float, float]]] = {
    "caltech101": {
        "Euclid": (27.7, 0.7),
        "LMNN": (43.7, 0.9),
        "FRML": (46.6, 0.9),
        "OASIS": (48.7, 0.8),
        "SLR": (55.3, 0.9),
    },
    "imagenet50": {
        "Euclid": (6.8, 0.1),
        "LMNN": (7.6, 0.1),
        "FRML": (8.2, 0.1),
        "OASIS": (11.1, 0.1),
        "SLR": (14.2, 0.1),
    },
}

# Table 3: minutes on twelve cores of 2.4 GHz.
MINUTES: dict[str, dict[str, float]] = {
    "caltech101": {"LMNN": 725.5, "FRML": 766.8, "OASIS": 249.5, "SLR": 3.2},
    "imagenet50": {"LMNN": 521.0, "FRML": 609.3, "OASIS": 614.6, "SLR": 30.0},
}
