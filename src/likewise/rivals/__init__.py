"""The usual methods as similarity models: estimators with the interface of SLR."""

from likewise.learn.cosine import Cosine
from likewise.rivals.closed_forms import LDA, RCA, Euclid, RidgeOneHot, Whitening, WithInput
from likewise.rivals.kernels import Kernelised, KernelRidge
from likewise.rivals.mahalanobis import FRML, LMNN, NCA
from likewise.rivals.neural import NeuralHead
from likewise.rivals.oasis import OASIS
from likewise.rivals.posteriors import LDAPosterior, LogisticPosterior, SVMPosterior

__all__ = [
    "FRML", "LDA", "LMNN", "NCA", "OASIS", "RCA", "Cosine", "Euclid", "KernelRidge", "Kernelised", "LDAPosterior",
    "LogisticPosterior", "NeuralHead", "RidgeOneHot", "SVMPosterior", "Whitening", "WithInput",
]  # fmt: skip
