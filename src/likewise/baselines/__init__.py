"""The usual methods as similarity models: estimators with the interface of SLR."""

from likewise.baselines.appended import WithInput
from likewise.baselines.frml import FRML
from likewise.baselines.kernel import Kernelised
from likewise.baselines.lda import LDA
from likewise.baselines.lda_posterior import LDAPosterior
from likewise.baselines.lmnn import LMNN
from likewise.baselines.logistic import LogisticPosterior
from likewise.baselines.nca import NCA
from likewise.baselines.oasis import OASIS
from likewise.baselines.ridge import RidgeOneHot
from likewise.baselines.simple import Cosine, Euclid
from likewise.baselines.svm import SVMPosterior
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
    "Kernelised",
    "LDAPosterior",
    "LogisticPosterior",
    "RidgeOneHot",
    "SVMPosterior",
    "Whitening",
    "WithInput",
]
