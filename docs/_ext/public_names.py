"""The API reference: one page per module of the public API, with the names of its `__all__`, from their docstrings."""

from importlib import import_module
from inspect import getdoc, isclass, unwrap
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxRole

# In the order of the reference. Each is a module with `__all__`.
MODULES = (
    "likewise",
    "likewise.rows",
    "likewise.pictures",
    "likewise.search",
    "likewise.search.stores",
    "likewise.teach",
    "likewise.words",
    "likewise.evaluate",
    "likewise.rivals",
    "likewise.rivals.compare",
    "likewise.rows.doctor",
    "likewise.paper",
    "likewise.serve",
    "likewise.errors",
)


def names_of(module: str) -> list[str]:
    """What a module offers; a module without `__all__` (`likewise.errors`) all that it defines."""
    home = import_module(module)
    defined = [name for name, value in vars(home).items() if getattr(value, "__module__", None) == module]
    return [name for name in getattr(home, "__all__", defined) if not name.startswith("_")]


def page(module: str) -> str:
    """reStructuredText: a summary of all names, then each with its docstring."""
    home, names = import_module(module), names_of(module)
    first = (getdoc(home) or module).split("\n\n")[0]
    summary = ["", f".. currentmodule:: {module}", "", ".. autosummary::", "", *(f"   {name}" for name in names), ""]
    entries = [line for name in names for line in _entry(getattr(home, name), module, name)]
    return "\n".join([module, "=" * len(module), "", first, *summary, *entries])


def _entry(thing: Any, module: str, name: str) -> list[str]:
    if isclass(thing):
        return [f".. autoclass:: {module}.{name}", "   :members:", "   :inherited-members: BaseEstimator", ""]
    return [f".. autofunction:: {module}.{name}" if callable(thing) else f".. autodata:: {module}.{name}", ""]


def _write(app: Any) -> None:
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        path, text = folder / f"{module}.rst", page(module)
        if not path.exists() or path.read_text() != text:  # an unchanged page is not read again
            path.write_text(text)


def _ours(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class has from scikit-learn or Python: `set_output` and the like are documented there."""
    if hasattr(BaseException, name):  # notes and tracebacks of errors
        return True
    home = (
        getattr(unwrap(thing) if callable(thing) else getattr(thing, "fget", thing), "__module__", None) or "likewise"
    )
    return True if home.split(".")[0] in ("sklearn", "numpy", "builtins") else None


class Name(SphinxRole):
    """What is in backticks in a docstring: a link if it is a public name, else code."""

    def run(self) -> tuple[list[nodes.Node], list[Any]]:
        found = _HOMES.get(self.text.removesuffix("()"))
        if not found:
            return [nodes.literal(self.rawtext, self.text)], []
        link = addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=found, refdoc=self.env.docname)
        link += nodes.literal(self.rawtext, self.text)
        return [link], []


_HOMES = {name: f"{module}.{name}" for module in reversed(MODULES) for name in names_of(module)}


def setup(app: Any) -> dict[str, bool]:
    app.add_role("name", Name())
    app.connect("builder-inited", _write)
    app.connect("autodoc-skip-member", _ours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
