"""An append-only journal in one SQLite file: what was appended survives crashes, and several processes may write to it.

Records are JSON values in the order in which they were appended. An append is one transaction: it is on disk as a whole
when it returns, or nothing of it is there. Every operation opens the file by itself, so that a journal may be shared by
threads, outlive a fork, and notice that its file was replaced. The folder that a journal was opened in is remembered:
if its disk is taken away, nothing is written to what is found in its place.
"""

import json
import os
import secrets
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from likewise.errors import FileFormatError, LikewiseError
from likewise.utils.files import StrPath, atomic_write

# Rollback journal: WAL needs shared memory and a writable folder to be read. EXTRA also syncs the folder, without which
# a power failure could bring the rollback journal back, and with it undo a transaction that was confirmed.
_PRAGMAS = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA cell_size_check = ON"
_TABLE = "CREATE TABLE journal (sequence INTEGER PRIMARY KEY, payload TEXT NOT NULL, crc INTEGER NOT NULL)"
_PAGE, _LEAST = 4096, 20  # bytes of a page, and of the smallest record
_NEWER = "SELECT sequence, payload, crc FROM journal WHERE sequence > ? ORDER BY sequence"


class Record(NamedTuple):
    """A value and its place in the order; the value is None if it is damaged (a wrong checksum)."""

    sequence: int
    value: Any


class Journal:
    """A journal file, which the first append creates.

    Parameters
    ----------
    path : path
        The file; its folder must exist.
    timeout : float
        Seconds to wait for other writers before a sentence says so; readers wait a tenth of it.
    """

    def __init__(self, path: StrPath, timeout: float = 5.0) -> None:
        self.path, self.timeout = Path(path), timeout
        self.identity = 0  # of the file that was read last: another number after it was replaced
        self._folder = _folder_id(self.path.parent)
        self._busy: tuple[float, str] = (0.0, "")  # until when another process is not waited for again, and why

    def read(self, since: int = 0) -> list[Record]:
        """All records after a sequence number; if the file was replaced since it was read last, all records."""
        self.check_folder()
        if not self.path.exists():
            return []
        with self._connection("rw") as connection:
            connection.execute("BEGIN")  # one state of the file for both queries
            return self._newer(connection, since) if self._is_journal(connection) else []

    def append(self, values: Sequence[Any]) -> list[Record]:
        """Append JSON values, all or none; they are on disk when this returns."""
        return self.update(lambda _: values)[-len(values) :] if values else []

    def update(self, values: Callable[[list[Record]], Sequence[Any]], since: int | None = None) -> list[Record]:
        """Append `values(records)` of the records after `since`; no other process writes in between.

        Returns these records and the new ones. Without `since` no record is read.
        """
        with self._connection("rwc", "nothing was saved") as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._is_journal(connection):
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA user_version = {1 + secrets.randbelow(2**31 - 1)}")  # the identity
            records = [] if since is None else self._newer(connection, since)
            added = list(values(records))
            first = connection.execute("SELECT coalesce(max(sequence), 0) + 1 FROM journal").fetchone()[0]
            payloads = [json.dumps(value, default=_plain, separators=(",", ":")) for value in added]
            rows = [(first + i, text, zlib.crc32(text.encode())) for i, text in enumerate(payloads)]
            connection.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT" if rows else "ROLLBACK")
        return records + [Record(sequence, json.loads(text)) for sequence, text, _ in rows]

    def problem(self) -> str | None:
        """What is damaged in the file; None if nothing is."""
        try:
            records = self.read()
            if not self.path.exists():
                return None
            with self._connection("rw") as connection:
                answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0].decode("utf-8", "replace")
        except FileFormatError as error:
            return str(error)
        n = sum(record.value is None for record in records)
        damage = f"{n} of its records are damaged" if n else answer if answer != "ok" else None
        return None if damage is None else f"{self.path} is damaged: {damage}"

    def copy_to(self, path: Path) -> int:
        """Write all records that can be read to a new file, with an identity of its own; returns their number."""
        with tempfile.TemporaryDirectory(prefix="likewise-") as folder:
            copy = Path(folder) / "journal.sqlite"
            records = self._salvaged(copy)
            other = Journal(Path(folder) / path.name)
            other.append([record.value for record in records])
            if records:
                Path(f"{path}-journal").unlink(missing_ok=True)  # SQLite would apply it to the new file
                atomic_write(path, other.path.read_bytes())
        return len(records)

    def _salvaged(self, copy: Path) -> list[Record]:
        """The records that can be read: all at once, or of a damaged file one by one, from a copy."""
        with suppress(FileFormatError):
            if all(record.value is not None for record in self.read()) and self.problem() is None:
                return self.read()
        data = bytearray(self.path.read_bytes())
        copy.write_bytes(data)
        try:
            return _readable(copy)
        except sqlite3.Error:  # its first page, which is the same in every journal but for the size of the file
            blank = Journal(copy.with_name("blank.sqlite"))
            blank.append([None])
            first = bytearray(blank.path.read_bytes()[:_PAGE])
            first[28:32] = (len(data) // _PAGE).to_bytes(4, "big")
            copy.write_bytes(bytes(first) + data[_PAGE:])
            with suppress(sqlite3.Error):
                return _readable(copy)
            return []

    def check_folder(self) -> None:
        """Raise if the folder is gone, or is not the one in which this journal was opened."""
        folder = _folder_id(self.path.parent)
        if self._folder is None:
            self._folder = folder
        if folder != self._folder:
            problem = "is gone" if folder is None else "is not the folder that was opened: another is in its place"
            raise LikewiseError(f"{self.path.parent} {problem}; nothing was saved: attach its disk, and start again")

    def _newer(self, connection: sqlite3.Connection, since: int) -> list[Record]:
        identity = connection.execute("PRAGMA user_version").fetchone()[0]
        if self.identity not in (0, identity):
            since = 0
        self.identity = identity
        return [_record(*row) for row in connection.execute(_NEWER, (since,))]

    def _is_journal(self, connection: sqlite3.Connection) -> bool:
        """Whether the table exists; raises if the file is the database of something else."""
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        if tables and tables != [b"journal"]:
            raise FileFormatError(f"{self.path} is not a journal: it is another database")
        return bool(tables)

    @contextmanager
    def _connection(self, mode: str, outcome: str = "") -> Iterator[sqlite3.Connection]:
        """A connection that is closed afterwards, which rolls back; its errors become sentences."""
        cannot = f"cannot {'write' if outcome else 'read'} {self.path}"
        then = f"; {outcome}" if outcome else ""
        self.check_folder()
        if time.monotonic() < self._busy[0]:  # those who wait in a queue would wait one after the other
            raise LikewiseError(f"{self._busy[1]}{then}; try again")
        connection = None
        try:
            uri = f"{self.path.absolute().as_uri()}?mode={mode}"
            seconds = self.timeout if outcome else self.timeout / 10
            connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None)
            connection.text_factory = bytes
            for pragma in _PRAGMAS.split(";"):
                connection.execute(pragma)
            yield connection
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended part
            if code == sqlite3.SQLITE_NOTADB:
                raise FileFormatError(f"{self.path} is not a journal") from error
            if code == sqlite3.SQLITE_CORRUPT:
                raise FileFormatError(
                    f"{self.path} is damaged; likewise check {self.path.parent} --repair saves what can be read"
                ) from error
            if code == sqlite3.SQLITE_BUSY:
                by = _lock_holder(self.path) or "another process"
                text = f"{self.path} is being written by {by}, which does not end"
                self._busy = time.monotonic() + self.timeout / 2, text
                raise LikewiseError(f"{text}{then}; try again") from error
            raise LikewiseError(f"{cannot}: {error}{then}") from error
        finally:
            if connection is not None:
                connection.close()


def _readable(path: Path) -> list[Record]:
    """The records of a file that may be damaged, one by one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = bytes
        connection.execute("SELECT name FROM sqlite_master").fetchall()
        try:
            most = connection.execute("SELECT max(sequence) FROM journal").fetchone()[0] or 0
        except sqlite3.Error:
            most = path.stat().st_size // _LEAST
        records = []
        for sequence in range(1, most + 1):
            with suppress(sqlite3.Error):
                rows = connection.execute(_NEWER.replace(">", "="), (sequence,)).fetchall()
                records += [record for record in (_record(*row) for row in rows) if record.value is not None]
    return records


def _folder_id(folder: Path) -> tuple[int, int] | None:
    """What tells a folder from another of the same name; None if there is none."""
    try:
        facts = os.stat(folder)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _lock_holder(path: Path) -> str | None:
    """The process that has locked a file, by name and number, where the system says so (Linux)."""
    try:
        number = f":{os.stat(path).st_ino} "
        locks = Path("/proc/locks").read_text().splitlines()
        # 1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF; with "->" a process that waits
        pids = [line.split()[4] for line in locks if number in line and "->" not in line and " WRITE " in line]
        return f"process {pids[0]} ({Path(f'/proc/{pids[0]}/comm').read_text().strip()})" if pids else None
    except (OSError, IndexError):
        return None


def _record(sequence: int, payload: Any, crc: Any) -> Record:
    try:
        return Record(sequence, json.loads(payload) if zlib.crc32(payload) == crc else None)
    except (ValueError, TypeError, RecursionError):
        return Record(sequence, None)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
