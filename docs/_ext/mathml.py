"""Formulae as MathML, made while the site is built: browsers draw it themselves, without a script or a font."""

from html import escape
from typing import Any

from latex2mathml.converter import convert


def _inline(self: Any, node: Any) -> None:
    self.body.append(convert(node.astext()))
    raise _skip()


def _block(self: Any, node: Any) -> None:
    label = f' id="{escape(node["ids"][0])}"' if node.get("ids") else ""
    self.body.append(f'<div class="math"{label}>{convert(node.astext(), display="block")}</div>')
    raise _skip()


def _skip() -> Exception:
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
