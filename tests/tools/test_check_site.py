"""The check of the site finds links that lead nowhere and things from elsewhere."""

from __future__ import annotations

from pathlib import Path

from tools.check_site import problems


def test_links_and_fetched_things_are_followed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><img src="gone.png">'
        '<a href="sub/page.html#there">x</a><a href="sub/page.html#gone">x</a><a href="https://else.example">x</a>'
    )
    (tmp_path / "sub" / "page.html").write_text('<h1 id="there">x</h1><a href="../index.html">x</a><a href="#">top</a>')
    assert problems(tmp_path) == [
        "index.html: fetches https://fonts.example/a.css",
        "index.html: sub/page.html#gone leads nowhere",
        "index.html: gone.png leads nowhere",
    ]
