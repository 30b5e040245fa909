"""An encoder with a learned similarity behind it: the same vectors as the model's, query and document side."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from likewise import SLR
from likewise.errors import LikewiseError
from likewise.search import LearnedEncoder

TEXTS = [f"{one} and {two}" for one in ("red", "green", "blue") for two in ("pea", "bean", "leek", "kale", "corn")]
LABELS = np.repeat([0, 1, 2], 5)


class Hashed:
    """An encoder as sentence-transformers are, without any file."""

    def __init__(self) -> None:
        self.options: dict[str, object] = {}

    def encode(self, sentences: list[str], **options: object) -> np.ndarray:
        self.options = options
        return HashingVectorizer(n_features=16, norm="l2").transform(sentences).toarray().astype(np.float32)


class TwoSided(Hashed):
    """As recent ones are: queries have a prompt of their own."""

    def encode_query(self, sentences: list[str]) -> np.ndarray:
        return self.encode([f"query: {text}" for text in sentences])


@pytest.fixture(scope="module")
def model() -> SLR:
    return SLR(rank=2, random_state=0).fit(Hashed().encode(TEXTS), LABELS)


def test_vectors_are_those_of_the_model(model: SLR) -> None:
    learned, rows = LearnedEncoder(model, Hashed()), Hashed().encode(TEXTS)
    np.testing.assert_allclose(learned.encode(TEXTS), model.transform(rows), rtol=1e-6)
    np.testing.assert_allclose(learned.encode_document(TEXTS), model.transform(rows), rtol=1e-6)
    np.testing.assert_allclose(learned.encode_query(TEXTS), model.transform_query(rows), rtol=1e-6)
    S = learned.similarity(learned.encode_query(TEXTS), learned.encode(TEXTS))
    np.testing.assert_allclose(S, model.similarity(rows, rows), rtol=1e-4, atol=1e-4)


def test_one_text_is_one_vector(model: SLR) -> None:
    learned = LearnedEncoder(model, Hashed())
    np.testing.assert_allclose(learned.encode(TEXTS[0]), learned.encode(TEXTS)[0], rtol=1e-5)
    assert learned.similarity(learned.encode_query(TEXTS[0]), learned.encode(TEXTS)).shape == (1, len(TEXTS))


def test_a_prompt_and_options_of_the_encoder_are_kept(model: SLR) -> None:
    encoder = TwoSided()
    learned = LearnedEncoder(model, encoder)
    prompted = model.transform_query(encoder.encode_query(TEXTS))
    np.testing.assert_allclose(learned.encode_query(TEXTS), prompted, rtol=1e-6)
    learned.encode(TEXTS, batch_size=4)
    assert encoder.options == {"batch_size": 4}


def test_what_is_no_encoder_is_said(model: SLR) -> None:
    with pytest.raises(LikewiseError, match="encoder is a list without encode; expected one that has it"):
        LearnedEncoder(model, [])

    class Flat:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.ones(len(texts))

    with pytest.raises(LikewiseError, match=r"encoder gives shape \(15,\); expected one vector per text"):
        LearnedEncoder(model, Flat()).encode(TEXTS)
