"""The `meta.json` of a version of an index: what it must hold, field by field."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import likewise
from likewise.errors import FileFormatError
from likewise.search.approximate import KINDS
from likewise.utils.files import atomic_write

FORMAT = 1
META = "meta.json"
_FILE = re.compile(r"[a-z]+\.[a-z]+")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_source(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("learned", {}), dict):
        return False
    texts = (value.get(name) for name in ("features", "labels", "content"))
    return all(text is None or isinstance(text, str) for text in texts) and all(
        map(_is_int, value.get("learned", {}).values())
    )


def _is_files(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _FILE.fullmatch(name) and isinstance(digest, str) for name, digest in value.items()
    )


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


# What each field may be; those after the first group may be absent.
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "format": _is_int,
    "files": _is_files,
    "n_items": lambda value: _is_int(value) and value > 0,
    "root": _or_none(lambda value: isinstance(value, str)),
    "extractor": _or_none(lambda value: isinstance(value, dict)),
    "approximate": lambda value: value is False or value in KINDS,
    "recall": _or_none(_is_number),
}
_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "neighbours": _or_none(
        lambda value: (
            isinstance(value, dict) and value.keys() <= {"k", "power"} and all(map(_is_number, value.values()))
        )
    ),
    "source": _or_none(_is_source),
}


def read_facts(version: Path) -> dict[str, Any]:
    """The facts of a version; a damaged field is named."""
    path = version / META
    try:
        facts: Any = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise FileFormatError(f"{version.parent} is damaged: {path} is missing") from error
    except (ValueError, RecursionError, OSError) as error:
        raise FileFormatError(f"{path} is damaged: {error!r}") from error
    if not isinstance(facts, dict):
        raise FileFormatError(f"{path} is damaged: it holds no object")
    if _is_int(facts.get("format")) and facts["format"] > FORMAT:
        raise FileFormatError(
            f"{version.parent} has format {facts['format']}; likewise {likewise.__version__} reads up to {FORMAT}: "
            "upgrade it"
        )
    for name, check in {**_CHECKS, **_OPTIONAL}.items():
        if name not in facts and name in _CHECKS:
            raise FileFormatError(f"{path} is damaged: its field {name!r} is missing")
        if name in facts and not check(facts[name]):
            raise FileFormatError(f"{path} is damaged: its field {name!r} is {str(facts[name])[:60]!r}")
    return facts


def write_facts(version: Path, facts: dict[str, Any]) -> None:
    card = {"format": FORMAT, "likewise": likewise.__version__, **facts}
    atomic_write(version / META, (json.dumps(card, indent=2, sort_keys=True) + "\n").encode())
