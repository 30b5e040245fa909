"""The examples of the gallery run, and each draws a picture."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


@pytest.mark.second
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plt.switch_backend("Agg")
    plt.close("all")
    runpy.run_path(str(path), run_name="__main__")
    assert plt.get_fignums()
    plt.close("all")


def test_the_gallery_has_what_it_promises() -> None:
    names = {path.stem.removeprefix("plot_") for path in EXAMPLES}
    assert names >= {
        "digits", "unseen_classes", "clicks", "folder", "vector_store", "out_of_core", "dask", "confidence",
        "own_estimator",
    }  # fmt: skip
