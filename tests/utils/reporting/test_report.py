"""Reports: one file, nothing from outside, everything escaped."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from likewise.utils.reporting.pictures import encode_png
from likewise.utils.reporting.report import (
    Block,
    Code,
    Facts,
    Heading,
    Picture,
    TableBlock,
    Text,
    html_of,
    to_html,
    to_markdown,
)

VOID = {"meta", "img", "br"}


class _Balanced(HTMLParser):
    """Raises where a tag is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


TABLE = TableBlock(("method", "mAP"), [["<one>", "0.25"], ["two", "1.50"], ["none", "–"]], best=1, bar="mAP")


@pytest.fixture
def page(tmp_path: Path) -> str:
    (tmp_path / "a.png").write_bytes(encode_png(np.zeros((4, 4), np.uint8)))
    blocks = [
        Heading("Heading <b>"),
        Text("a < b"),
        Code("likewise fit 'a&b'"),
        Picture(tmp_path / "a.png", 'caption "quoted" <i>', width=300),
        TABLE,
        Facts({"numpy": np.__version__}),
    ]
    return to_html("A <title>", "A lead & more", blocks)


def test_tags_are_balanced_and_text_is_escaped(page: str) -> None:
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    for piece in ("A &lt;title&gt;", "a &lt; b", "caption &quot;quoted&quot; &lt;i&gt;", "&lt;one&gt;", "&amp; more"):
        assert piece in page


def test_nothing_comes_from_another_host_and_no_script_runs(page: str) -> None:
    assert not re.search(r"https?://|//[a-z]|<script|<link|@import|url\(", page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page


def test_the_picture_is_in_the_page(page: str) -> None:
    result = re.search(r'width="300" src="data:image/png;base64,([^"]+)"', page)
    assert result
    assert base64.b64decode(result[1]) == encode_png(np.zeros((4, 4), np.uint8))


def test_bars_show_the_values_and_the_best_row_stands_out() -> None:
    table = html_of(TABLE)
    assert re.findall(r"width:([\d.]+)%", table) == ["25.0", "100.0", "0.0"]
    assert re.search(r'<tr class="best"><td>two</td><td class="number">1.50</td>', table)
    assert "bar" not in html_of(TableBlock(("a",), [["x"]]))


def _blocks(folder: Path) -> list[Block]:
    (folder / "a.png").write_bytes(b"\x89PNG")
    return [
        Heading("Results"), Text("x < y"), TableBlock(["method", "mAP"], [["A", "1"], ["B", "2"]], best=1),
        Picture(folder / "a.png", "A picture. It shows more."), Code("likewise paper"), Facts({"numpy": "2"}),
    ]  # fmt: skip


def test_markdown(tmp_path: Path) -> None:
    text = to_markdown("Title", "Lead.", _blocks(tmp_path))
    assert text.startswith("# Title\n\nLead.\n\n## Results\n\nx < y\n\n| method | mAP |\n| --- | ---: |\n| A | 1 |\n")
    assert "| **B** | **2** |" in text
    assert "![A picture](a.png)\n\n*A picture. It shows more.*" in text
    assert "```\nlikewise paper\n```\n\n- numpy: 2\n" in text


def test_html_escapes_and_embeds(tmp_path: Path) -> None:
    page = to_html("Title", "Lead.", _blocks(tmp_path))
    assert "<p>x &lt; y</p>" in page
    assert 'class="best"' in page
    assert "data:image/png;base64,iVBORw==" in page
