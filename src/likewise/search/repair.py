"""A damaged index: what is wrong with it, and a version of it that is sound again, around its marks."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.learn.base import load
from likewise.pictures.base import load_extractor
from likewise.search.index import Index
from likewise.search.neighbors import Neighbors
from likewise.search.storage import INDEX, MODEL, is_left_of_index, read_sources, read_version
from likewise.utils.files import locked
from likewise.utils.versions import Facts
from likewise.utils.wording import plural


def problem_of(folder: Path) -> str | None:
    """What is wrong with the current version of an index; None if every file of it is sound."""
    current = INDEX.current(folder)
    if current is None:
        return f"{folder} is damaged: its {INDEX.pointer} is lost"
    return _problem(current)


def _problem(version: Path) -> str | None:
    try:
        read_version(version)
    except (LikewiseError, OSError) as error:
        return str(error)
    return None


def repair(folder: Path) -> str:
    """Make a version without damage the current one, and say which it is; raises if there is none.

    It is the newest that is sound, or of which vectors, neighbours and facts can be computed from what is sound. Marks,
    labels and lessons are not touched.
    """
    if not is_left_of_index(folder):
        raise FileFormatError(f"{folder} is not an index: it has no {INDEX.pointer}")
    with locked(folder):
        before = INDEX.current(folder)
        index = None
        for version in INDEX.versions(folder):
            index = None if (is_sound := _problem(version) is None) else _mended(version)
            if is_sound or index is not None:
                others = [other for other in INDEX.versions(folder) if other != version]
                INDEX.point(folder, version, others[0] if others else None)
                break
        else:
            raise LikewiseError(_advice(folder))
    if index is None:
        return f"{version.name} is current" + ("" if version == before else ", the newest version that is sound")
    index.save(folder)
    lost = "" if index.root is not None or index.paths is None else "; --root DIR of search and serve says where"
    return f"computed again from the rows and the model of {version.name}: {plural(len(index), 'item')}{lost}"


def _mended(version: Path) -> Index | None:
    """The index of a version whose model, rows and items are sound."""
    try:
        facts = _facts(version)
        model, gallery = read_sources(version, facts)
        gallery = replace(gallery, raw=np.array(gallery.raw))
        if gallery.extractor_file is not None and gallery.extractor is None:
            with suppress(LikewiseError):  # one that is not run unasked
                gallery = replace(gallery, extractor=load_extractor(gallery.extractor_file).describe())
        neighbors, kind = facts.get("neighbors"), facts.get("approximate", False)
        n_neighbors = Neighbors(**neighbors) if neighbors is not None else 0 if "n_items" in facts else "auto"
        index = Index.build(model, gallery, approximate=kind, n_neighbors=n_neighbors)
    except (LikewiseError, OSError, TypeError, ValueError):
        return None
    index.source = facts.get("source")
    return index


def _facts(version: Path) -> Facts:
    """The facts of a version; if these are lost, those of another, which has other files."""
    for one in (version, *INDEX.versions(version.parent)):
        with suppress(FileFormatError):
            facts = INDEX.read_facts(one)
            return facts if one == version else {**facts, "files": {}}
    return {"files": {}}


def library_of(folder: Path) -> Path | None:
    """The pictures that an index is built again from, if it remembers where they and their features are."""
    versions = INDEX.versions(folder)
    facts = _facts(versions[0]) if versions else {}
    return Path(facts["root"]) if facts.get("source") and facts.get("root") else None


def _advice(folder: Path) -> str:
    """How an index is built again where none of its versions can be: in the same folder, around its marks."""
    versions, photos = INDEX.versions(folder), library_of(folder)
    model = next((path for version in versions if is_model(path := version / MODEL)), "[MODEL]")
    command = f"likewise index {model} GALLERY -o {folder}"
    if photos is not None:
        command = f"likewise serve {photos} -o {folder} --refit"
    elif not versions:
        (folder / INDEX.pointer).unlink(missing_ok=True)
        command = f"likewise serve PHOTOS -o {folder}, or {command},"
    return f"no version of {folder} can be repaired; its marks stay: {command} builds it again around them"


def is_model(path: Path) -> bool:
    """Whether a model can be read from a file."""
    try:
        load(path)
    except (LikewiseError, OSError):
        return False
    return True
