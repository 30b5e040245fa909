"""Exports in processes that are killed: forked from one that has imported everything but the databases' drivers.

Drivers start threads, which do not survive a fork: each export imports its own.
"""

from __future__ import annotations

import threading
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

from tests.processes import FORKED

from likewise.search.index import Index
from likewise.search.stores import export_to, open_store

FURTHER = 4  # batches that an export may begin before the signal reaches it


def killed_after(batches: int, index: Path, address: str, table: str) -> None:
    """Export in batches of ten rows, and kill -9 the export after so many of them."""
    here, there = FORKED.Pipe()
    export = FORKED.Process(target=_export, args=(index, address, table, there, batches + FURTHER))
    export.start()
    there.close()
    try:
        for _ in range(batches):
            here.recv()
    finally:
        export.kill()
        export.join()


def _export(index: Path, address: str, table: str, parent: Connection, most: int) -> None:
    with open_store(address, table) as store:
        type(store).batch = 10
        upsert, begun = type(store).upsert, count(1)

        def telling(*passed: object, **options: object) -> None:
            if next(begun) > most:
                threading.Event().wait()  # until it is killed
            upsert(*passed, **options)  # type: ignore[arg-type]
            parent.send(None)

        type(store).upsert = telling  # type: ignore[assignment,method-assign]
        export_to(Index.load(index), store)
