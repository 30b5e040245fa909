"""The rivals, each an estimator with the contract of SLR: similarity is an inner product of two sides."""

from likewise.baselines.frml import FRML
from likewise.baselines.lda import LDA
from likewise.baselines.lmnn import LMNN
from likewise.baselines.logistic import LogisticPosterior
from likewise.baselines.nca import NCA
from likewise.baselines.oasis import OASIS
from likewise.baselines.ridge import RidgeOneHot
from likewise.baselines.simple import Cosine, Euclid
from likewise.baselines.whitening import RCA, Whitening

__all__ = [
    "FRML",
    "LDA",
    "LMNN",
    "NCA",
    "OASIS",
    "RCA",
    "Cosine",
    "Euclid",
    "LogisticPosterior",
    "RidgeOneHot",
    "Whitening",
]
