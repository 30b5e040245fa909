"""`likewise show`: what a model, an index, features or exported vectors are, and where they came from."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from likewise.cli.console import emit_json, say
from likewise.cli.export import Table
from likewise.cli.options import AsJson, kind_of, load_model
from likewise.errors import LikewiseError


def show(
    path: Annotated[str, Argument(metavar="PATH", help="A model, index, features, export, or address of a database.")],
    table: Table = "likewise",
    as_json: AsJson = False,
) -> None:
    """Print what a model, an index, features, an exported file or a table of a vector database is, and its origin.

    Models that rank equally have the same id, whenever they were fitted. Vectors of two models with different ids
    cannot be compared: what was exported has the id of its model with it.

    [bold]Examples[/bold]

    \b
      likewise show shoes.likewise
      likewise show live.index
      likewise show postgresql://me@localhost/shop --table items
      likewise show live.index --json | jq -r .model.id
    """
    card = card_of(path, table)
    emit_json(card) if as_json else say("\n".join(_lines(card)))


def card_of(path: str, table: str) -> dict[str, Any]:
    """What is at a path or an address, as plain values."""
    from likewise.search.stores.base import scheme_of, without_password

    if scheme_of(path) is not None:
        from likewise.search.stores import open_store

        with open_store(path, table) as store:
            layout, rows = store.existing_layout(), store.count()
        facts = {"rows": rows, "width": layout.width, "metadata": dict(layout.metadata), "model": layout.card}
        return {"kind": "table", "path": without_password(path), "table": table, **facts}
    kind = kind_of(path)
    if kind == "model":
        return {"kind": "model", "path": path, **load_model(Path(path)).card()}
    if kind == "index":
        return {"kind": "index", "path": path, **_facts_of_index(path)}
    if kind in ("features", "table") or Path(path).suffix in (".arrow", ".feather"):
        return {"kind": "features", "path": path, **_facts_of_features(Path(path))}
    if not Path(path).exists():
        raise LikewiseError(f"{path} does not exist")
    raise LikewiseError(f"{path}: expected a model, an index, features or a table, or the address of a database")


def _facts_of_index(folder: str) -> dict[str, Any]:
    from likewise.search import Index

    index = Index.load(folder, verify=False)
    return {
        "items": len(index),
        "width": int(index.vectors.shape[1]),
        "labelled": 0 if index.labels is None else sum(label is not None for label in index.labels),
        "approximate": index.approximate,
        "neighbors": 0 if index.neighbors is None else index.neighbors.k,
        "metadata": {} if index.metadata is None else index.metadata.kinds,
        "model": index.model.card(),
    }


def _facts_of_features(path: Path) -> dict[str, Any]:
    from likewise.rows import read_table
    from likewise.rows.store import FeatureStore, is_store
    from likewise.search.exports import exported_card

    if is_store(path):
        meta = FeatureStore.open(path).meta
        return {name: meta[name] for name in sorted(meta)}
    if (card := exported_card(path)) is not None:
        return {"kind": "vectors", "model": card}
    X = read_table(path, names=False).X
    return {"n_items": X.shape[0], "n_features": X.shape[1]}


def _lines(card: dict[str, Any], indent: str = "") -> list[str]:
    """A line for each value; those of an object below its name."""
    lines = []
    for name, value in card.items():
        label = f"{indent}{name.replace('_', ' ')}"
        if isinstance(value, dict) and value:
            lines += [label, *_lines(value, f"{indent}  ")]
        elif value not in (None, {}, []):
            lines.append(f"{label:<18} {_text(value)}")
    return lines


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, float) for one in value):
        return " to ".join(map(_text, value))
    return f"{value:.4f}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
