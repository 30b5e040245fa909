"""One document, two formats."""

from __future__ import annotations

from pathlib import Path

from likewise.paper.markdown import Code, Facts, Heading, Picture, TableBlock, Text, to_html, to_markdown


def _blocks(folder: Path) -> list[object]:
    (folder / "a.png").write_bytes(b"\x89PNG")
    return [
        Heading("Results"), Text("x < y"), TableBlock(["method", "mAP"], [["A", "1"], ["B", "2"]], best=1),
        Picture(folder / "a.png", "A picture. It shows more."), Code("likewise paper"), Facts({"numpy": "2"}),
    ]  # fmt: skip


def test_markdown(tmp_path: Path) -> None:
    text = to_markdown("Title", "Lead.", _blocks(tmp_path))  # type: ignore[arg-type]
    assert text.startswith("# Title\n\nLead.\n\n## Results\n\nx < y\n\n| method | mAP |\n| --- | ---: |\n| A | 1 |\n")
    assert "| **B** | **2** |" in text
    assert "![A picture](a.png)\n\n*A picture. It shows more.*" in text
    assert "```\nlikewise paper\n```\n\n- numpy: 2\n" in text


def test_html_escapes_and_embeds(tmp_path: Path) -> None:
    page = to_html("Title", "Lead.", _blocks(tmp_path))  # type: ignore[arg-type]
    assert "<p>x &lt; y</p>" in page
    assert 'class="best"' in page
    assert "data:image/png;base64,iVBORw==" in page
