"""One script and one style sheet for the page: a browser that asks for three dozen files waits for each of them.

A module becomes a function that is called once and returns what it exports, in the order of the imports; style sheets
are set in place of the `@import` that names them. What the page uses of the two languages is all that is understood:
named imports and exports at the beginning of a line, no cycle, no exported `let`.
"""

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{([^}]+)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|const|class) ([\w$]+)", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_SHEET = re.compile(r'^@import "(\w+\.css)";\n', re.MULTILINE)


def bundled_script(sources: Mapping[str, str], entry: str) -> str:
    """The module `entry` and all it imports, each once, as one script."""
    parts: dict[str, str] = {}
    _add_module(sources, entry, parts, ())
    return "\n".join(parts.values())


def bundled_sheet(sources: Mapping[str, str], entry: str) -> str:
    """The style sheet `entry` with those it imports."""
    return _SHEET.sub(lambda found: sources[found[1]], sources[entry])


def _add_module(sources: Mapping[str, str], name: str, parts: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"{name} imports itself by way of {above[-1]}")
    if name in parts:
        return
    for _, imported in _IMPORT.findall(sources[name]):
        _add_module(sources, f"{imported}.js", parts, (*above, name))
    parts[name] = _called(name, sources[name])


def _called(name: str, source: str) -> str:
    """A module as a function that is called on the spot and returns what the module exports."""
    exported = [export for _, export in _EXPORT.findall(source)]
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(_destructured, source))
    if left := _LEFT.search(body):
        raise ValueError(f"{name}: cannot be bundled: {left[0]}")
    module, names = name.removesuffix(".js"), ", ".join(exported)
    return f"const {module}$ = (() => {{ // {name}\n{body}\nreturn {{ {names} }};\n}})();\n"


def _destructured(found: re.Match[str]) -> str:
    return f"const {{{found[1].replace(' as ', ': ')}}} = {found[2]}$;"
