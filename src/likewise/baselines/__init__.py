"""The usual methods as similarity models: estimators with the interface of SLR."""

from likewise.baselines.closed_forms import LDA, RCA, Cosine, Euclid, RidgeOneHot, Whitening
from likewise.baselines.composed import Kernelised, WithInput
from likewise.baselines.frml import FRML
from likewise.baselines.kernel_ridge import KernelRidge
from likewise.baselines.neighbours import LMNN, NCA
from likewise.baselines.neural import NeuralHead
from likewise.baselines.oasis import OASIS
from likewise.baselines.posteriors import LDAPosterior, LogisticPosterior, SVMPosterior

__all__ = [
    "FRML",
    "LDA",
    "LMNN",
    "NCA",
    "OASIS",
    "RCA",
    "Cosine",
    "Euclid",
    "KernelRidge",
    "Kernelised",
    "LDAPosterior",
    "LogisticPosterior",
    "NeuralHead",
    "RidgeOneHot",
    "SVMPosterior",
    "Whitening",
    "WithInput",
]
