"""Near-duplicates on the page: groups, the best first, and what is not the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.search import Index
from tests.serve.conftest import says, serving, until, visiting


@pytest.fixture
def doubled_site(tmp_path: Path) -> Iterator[Any]:
    """Twelve pictures; three are the same, of which one is larger, and two others are."""
    from PIL import Image

    from likewise.pictures import Pixels, extract_folder
    from likewise.rivals import Cosine
    from likewise.rows import FeatureStore

    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(9):
        blocks = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        blocks.resize((32, 32), Image.Resampling.NEAREST).save(folder / f"{number}.png")
    Image.open(folder / "0.png").resize((64, 64), Image.Resampling.NEAREST).save(folder / "0 large.png")
    shutil.copy(folder / "0.png", folder / "0 copy.png")
    shutil.copy(folder / "5.png", folder / "5 copy.png")
    extract_folder(folder, tmp_path / "photos.features", Pixels(size=8))
    store = FeatureStore.open(tmp_path / "photos.features")
    Index.build(Cosine().fit(store.features), store).save(tmp_path / "photos.index")
    with serving(tmp_path / "photos.index") as opened:
        yield opened


def test_groups_are_shown_best_first_and_the_rest_is_listed(browser: Any, doubled_site: Any) -> None:
    with visiting(browser, doubled_site[0]) as go:
        page = go("/#duplicates?")
        page.evaluate("document.getElementById('threshold').value = 990")
        page.dispatch_event("#threshold", "input")
        until(page, "document.querySelectorAll('.group').length === 2")
        assert page.inner_text("#duplicates-found") == "2 groups · 3 pictures beyond the best of each"
        assert page.inner_text(".group:first-child .card:first-child .file") == "0 large.png"
        assert page.inner_text(".group:first-child .card:first-child .best") == "best"
        with page.expect_download() as saved:
            page.click("#duplicates-csv")
        lines = sorted(saved.value.path().read_text().splitlines()[1:])
        assert lines == ["0 copy.png,0 large.png", "0.png,0 large.png", "5.png,5 copy.png"]
        assert "never deletes" in page.inner_text("#duplicates")


def test_what_is_not_the_same_is_remembered(browser: Any, doubled_site: Any) -> None:
    with visiting(browser, doubled_site[0]) as go:
        page = go("/#duplicates")
        page.click(".group:first-child .card:nth-child(2) .apart")
        says(page, "Remembered")
        until(page, "document.querySelectorAll('.group:first-child .card').length === 2")
        page.click(".group:nth-child(2) .group-head button")
        until(page, "document.querySelectorAll('.group').length === 1")
        page.reload()
        until(page, "document.querySelectorAll('.group').length === 1")
        assert page.locator(".group .card").count() == 2
