"""One document, two formats."""

from __future__ import annotations

from pathlib import Path

from likewise.paper.markdown import Code, Facts, Heading, Picture, TableBlock, Text, to_html, to_markdown
from likewise.paper.words import duration, listed, mean_and_deviation, plural, points


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


def test_words() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert plural(1, "class") == "1 class"
    assert plural(1200, "class") == "1,200 classes"
    assert mean_and_deviation([1.0]) == "1.0"
    assert mean_and_deviation([1.0, 3.0]) == "2.0 ± 1.4"
    assert points(0.034) == "0.03"
    assert points(3.14) == "3.1"
    assert duration(0.5) == "0.5 s"
    assert duration(186) == "186 s (3.1 min)"
