"""A release agrees with its changelog and its tag, and the container serves as a user without rights."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

import likewise
from tools import release

CONTAINER = (release.ROOT / "Containerfile").read_text()


def test_the_version_is_that_of_the_newest_section() -> None:
    written = release.version((release.ROOT / "src/likewise/__init__.py").read_text())
    assert written == likewise.__version__
    assert release.disagreements(written, (release.ROOT / "CHANGELOG.md").read_text(), [f"v{written}", "other"]) == []


def test_another_section_or_tag_is_named() -> None:
    found = release.disagreements("1.2.0", "# Changelog\n\n## [1.1.0] - 2026-01-01\n", ["v1.2.1"])
    assert found == ["CHANGELOG.md begins with 1.1.0", "this commit is tagged v1.2.1"]


def test_the_container_serves_an_index_as_a_user_without_rights() -> None:
    last = CONTAINER[CONTAINER.rindex("\nFROM") :]
    users = re.findall(r"^USER (\d+)$", last, re.MULTILINE)
    assert users
    assert int(users[-1]) > 0
    entry = json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", last, re.MULTILINE)[-1])
    assert entry[:3] == ["likewise", "serve", "/index"]
    assert last.index("USER") < last.index("ENTRYPOINT")


def test_the_container_file_is_clean() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(["hadolint", str(release.ROOT / "Containerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
