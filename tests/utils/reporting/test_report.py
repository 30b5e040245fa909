"""Reports: one file, nothing from outside, everything escaped."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from likewise.utils.reporting import report
from likewise.utils.reporting.pictures import encode_png
from likewise.utils.reporting.report import Block, Code, Facts, Heading, Picture, TableBlock, Text, to_html, to_markdown

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


def _page() -> str:
    png = encode_png(np.zeros((4, 4), np.uint8))
    return report.page(
        "A <title>",
        "A lead & more",
        [
            report.heading("Heading <b>"),
            report.paragraph("a < b"),
            report.code("likewise fit 'a&b'"),
            report.figure(png, "caption <i>", 'alt "quoted"', width=300),
            report.table(("method", "mAP"), [["<one>", 0.25], ["two", 1.5]], bar="mAP", best=1, digits={"mAP": 2}),
            report.definitions({"numpy": np.__version__}),
        ],
    )


def test_tags_are_balanced_and_text_is_escaped() -> None:
    page = _page()
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    for piece in (
        "A &lt;title&gt;",
        "a &lt; b",
        "caption &lt;i&gt;",
        "alt &quot;quoted&quot;",
        "&lt;one&gt;",
        "&amp; more",
    ):
        assert piece in page


def test_nothing_comes_from_another_host_and_no_script_runs() -> None:
    page = _page()
    assert not re.search(r"https?://|//[a-z]|<script|<link|@import|url\(", page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page


def test_the_picture_is_in_the_page() -> None:
    found = re.search(r'width="300" src="data:image/png;base64,([^"]+)"', _page())
    assert found
    assert base64.b64decode(found[1]) == encode_png(np.zeros((4, 4), np.uint8))


def test_bars_show_the_values_and_the_best_row_stands_out() -> None:
    table = report.table(("method", "mAP"), [["one", 0.25], ["two", 1.5]], bar="mAP", best=1, digits={"mAP": 2})
    assert re.findall(r"width:([\d.]+)%", table) == ["25.0", "100.0"]
    assert re.search(r'<tr class="best"><td>two</td><td class="number">1.50</td>', table)
    assert "bar" not in report.table(("a",), [["x"]])


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
