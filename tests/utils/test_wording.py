"""Numbers and lists as text."""

from __future__ import annotations

import numpy as np

from likewise.utils.wording import csv_text, duration, listed, mean_and_deviation, plural


def test_words() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert plural(1, "class") == "1 class"
    assert plural(1200, "class") == "1,200 classes"
    assert (plural(1, "query"), plural(0, "query"), plural(2, "warning")) == ("1 query", "0 queries", "2 warnings")
    assert mean_and_deviation([1.0]) == "1.0"
    assert mean_and_deviation([1.0, 3.0]) == "2.0 ± 1.4"
    assert duration(0.5) == "0.5 s"
    assert duration(186) == "186 s (3.1 min)"


def test_a_csv_for_spreadsheets_has_no_formula_in_head_cells_or_after_a_carriage_return() -> None:
    text = csv_text(("=HYPERLINK()", "plain"), [("+1", 2), ("a\r=cmd()", "x"), ("@x", "\ty")])
    assert text == "'=HYPERLINK(),plain\n'+1,2\n\"a\r=cmd()\",\"x\"\n'@x,'\ty\n"
    assert csv_text(("=a",), [("+1",)], guard=False) == "=a\n+1\n"


def test_results_are_tables_in_a_notebook() -> None:
    from likewise.evaluate import evaluate
    from likewise.rivals import LDA
    from likewise.rows.doctor import examine
    from likewise.search import Index

    y = np.arange(30) % 3
    X = np.random.default_rng(0).normal(size=(30, 4)) + y[:, None]
    index = Index.build(LDA().fit(X, y), X, {"id": [f"<{row}>" for row in range(30)]})
    for result, words in (
        (index.search(X[:2], k=3), ("<th>probability</th>", "&lt;0&gt;")),
        (evaluate(X, X, y), ("<th>mAP</th>",)),
        (examine(np.vstack([X, X]), np.tile(y, 2)), ("<th>remedy</th>", "repeats")),
    ):
        page = result._repr_html_()
        assert page.startswith("<table>")
        assert page.endswith("</table>")
        assert page.count("<tr>") == page.count("</tr>") >= 2
        for word in words:
            assert word in page
