"""What an import needs: the core dependencies alone, whatever else happens to be installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import likewise

ROOT = Path(__file__).parents[1]
CORE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
WITHOUT_EXTRAS = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ModuleNotFoundError(f"{{name}} is not a core dependency", name=name)
sys.meta_path.insert(0, Refuse())
"""


def _name(requirement: str) -> str:
    """The normalised name of a distribution."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]


def _closure(requirements: list[str]) -> set[str]:
    """The distributions that are installed by these requirements, extras aside."""
    found: set[str] = set()
    waiting = [_name(requirement) for requirement in requirements]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [_name(more) for more in _requires(name) if "extra ==" not in more]
    return found


def _requires(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # for another system, or another version of Python
        return []


def _refused() -> set[str]:
    """Every installed top-level module that no core dependency brings along."""
    core = _closure(CORE)
    homes = metadata.packages_distributions().items()
    return {module for module, names in homes if not core & {_name(name) for name in names}} - {"likewise"}


PROGRAM = """
import numpy as np
import likewise, likewise.cli
X, y = np.random.default_rng(0).normal(size=(40, 4)), np.arange(40) % 2
for model in (likewise.SimilarityLearner(kernel="linear"), likewise.SLR(2, max_iter=1)):
    model.fit(X, y).similarity(X)
assert not [name for name in sys.modules if name.startswith("likewise.rivals")], "a method of ours imports a rival"
import likewise.evaluate, likewise.rivals, likewise.rows, likewise.rows.doctor
from likewise.paper import variant
variant("SLR-C-20k")
public = [getattr(likewise, name) for name in likewise.__all__], likewise.rows.FeatureStore
"""


def test_everything_public_needs_the_core_dependencies_alone() -> None:
    program = WITHOUT_EXTRAS.format(refused=_refused()) + PROGRAM
    environment = {**os.environ, "PYTHONPATH": str(Path(likewise.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_the_core_is_small() -> None:
    refused = _refused()
    assert not refused & {"numpy", "scipy", "sklearn", "safetensors", "typer", "rich"}
    assert {"pytest", "hypothesis"} <= refused


def test_dir_lists_the_public_names_and_nothing_else_and_submodules_of_metrics_are_there() -> None:
    assert sorted(dir(likewise)) == sorted(likewise.__all__)
    program = "import likewise.evaluate; likewise.evaluate.verification.verification"
    environment = {**os.environ, "PYTHONPATH": str(Path(likewise.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert (ROOT / project["tool"]["hatch"]["version"]["path"]).samefile(likewise.__file__)
