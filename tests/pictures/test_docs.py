"""The Python blocks of the page on features run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "features.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_block_runs(block: str) -> None:
    exec(compile(block, "docs/features.md", "exec"), {})


def test_the_page_has_its_blocks() -> None:
    assert len(BLOCKS) == 3


def test_every_reason_the_page_promises_is_in_the_code() -> None:
    source = "".join(
        path.read_text("utf-8") for path in (Path(__file__).parents[2] / "src/likewise/pictures").glob("*.py")
    )
    table = PAGE.split("## Bad files")[1].split("## In Python")[0]
    for reason in re.findall(r"`((?:is|the|cannot|labels\.csv) [^`]*)`", table):
        words = max(re.split(r"[0-9…]|labels\.csv|cat, dog|: ", re.sub(r" \(.*\)", "", reason)), key=len).strip()
        assert words in source, words
