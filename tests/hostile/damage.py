"""Damage that fits a format: of a header, a field, a line or a part; what was sealed is sealed again."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

from likewise.learn.model_file import Card, Tensors, read_tensors, write_tensors
from tests.hostile.mutations import Rng, changed, changed_array, changed_json, damaged
from tests.hostile.runner import Damage, Files, scratch_folder

OfBytes = Callable[[Rng, bytes], bytes]

# ---------------------------------------------------------------------------------------------------------------------
# Which of the files


def one(damage: OfBytes) -> Damage:
    """One of the files, damaged; the others are not there, for reading them again teaches nothing."""

    def act(rng: Rng, files: Files) -> Files:
        name = _any_of(rng, sorted(files))
        return {name: damage(rng, files[name])}

    return act


def only(part: str, damage: OfBytes) -> Damage:
    """Damage of the one file whose name ends so."""

    def act(rng: Rng, files: Files) -> Files:
        name = next(name for name in sorted(files) if name.endswith(part))
        return {**files, name: damage(rng, files[name])}

    return act


def store_part(rng: Rng, files: Files) -> Files:
    name = _any_of(rng, sorted(files))
    return {**files, name: _part(rng, name, files[name])}


def index_part(rng: Rng, files: Files) -> Files:
    """One part of an index damaged, and its checksum right again nine times in ten.

    Not that of a file of faiss, which is believed if its checksum is right.
    """
    meta = next(name for name in files if name.endswith("meta.json") and "version-" in name)
    version = meta.rsplit("/", 1)[0]
    parts = [name for name in files if name.startswith(version) or name == "CURRENT"]
    favoured = [name for name in parts if name.endswith((".faiss", ".arrow"))]
    name = _any_of(rng, sorted(parts))
    name = favoured[0] if favoured and rng.random() < 0.5 else name
    files = {**files, name: _part(rng, name, files[name])}
    if name not in (meta, "CURRENT") and not name.endswith(".faiss") and rng.random() < 0.9:
        facts = json.loads(files[meta])
        facts["files"][name.rsplit("/", 1)[1]] = hashlib.sha256(files[name]).hexdigest()
        files[meta] = json.dumps(facts).encode()
    return files


def work_part(rng: Rng, files: Files) -> Files:
    """Of an extraction that did not end: its journal, its rows or its request damaged."""
    name = _any_of(rng, sorted(name for name in files if "/.work/" in name))
    damage = journal_records if name.endswith("sqlite") else damaged
    return {**files, name: damage(rng, files[name])}


def _any_of(rng: Rng, names: list[str]) -> str:
    return names[int(rng.integers(0, len(names)))]


def _part(rng: Rng, name: str, data: bytes) -> bytes:
    if name.endswith((".likewise", ".safetensors")):
        return resealed(rng, data)
    if name.endswith(".json"):
        return changed_json(rng, data)
    return npy(rng, data) if name.endswith(".npy") else damaged(rng, data)


# ---------------------------------------------------------------------------------------------------------------------
# What is done to it


def resealed(rng: Rng, data: bytes) -> bytes:
    """A likewise file with changed tensors or card, and a checksum that is right again."""
    if rng.random() < 0.2:
        return damaged(rng, data)
    sound, card = _unsealed(data)
    tensors = dict(sound)
    if tensors and rng.random() < 0.4:
        name = _any_of(rng, sorted(tensors))
        tensors[name] = changed_array(rng, tensors[name])
        if rng.random() < 0.2:
            del tensors[name]
    else:
        card = changed(rng, card)
    if not isinstance(card, dict):
        return damaged(rng, data)
    with scratch_folder() as scratch:
        return write_tensors(Path(scratch) / "sealed", tensors, card).read_bytes()


@cache
def _unsealed(data: bytes) -> tuple[Tensors, Card]:
    with scratch_folder() as scratch:
        (Path(scratch) / "sealed").write_bytes(data)
        return read_tensors(Path(scratch) / "sealed")


def npy(rng: Rng, data: bytes) -> bytes:
    """A header with other claims, or damaged bytes."""
    if rng.random() < 0.5:
        return damaged(rng, data)
    length = int.from_bytes(data[8:10], "little")
    header = damaged(rng, data[10 : 10 + length]) if rng.random() < 0.5 else _claim(rng).encode()
    header = header[:9000]
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + length :]


TYPES = ["<f4", "<f8", "|O", "<U100000000", "|V0", "<U0", "2000000000f4", ">f2", "|b1", "<c8", "<M8[D]", "|S9999999"]
SHAPES = ["(24, 5)", "(10**12,)", "(1000000000000, 5)", "(-1, 5)", "(0, 999999999999)", "()", "(24,)", "(5, 24, 1)"]


def _claim(rng: Rng) -> str:
    facts = f"'descr': {str(rng.choice(TYPES))!r}, 'fortran_order': {rng.choice(['True', 'False', '7'])}"
    return f"{{{facts}, 'shape': {rng.choice(SHAPES)}, }}\n"


def archive(rng: Rng, data: bytes) -> bytes:
    """Damaged bytes; or an archive of arrays whose headers were changed."""
    if rng.random() < 0.5:
        return damaged(rng, data)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for key in old.namelist():
            new.writestr(key, npy(rng, old.read(key)) if rng.random() < 0.5 else old.read(key))
    return out.getvalue()


WORDS = (
    b"1e400", b"nan", b"9" * 400, b"\xff", b'"', b"\0", b"2000000000000", b"x" * 2000, b",,,,", b"\n", b"1_0",
    b"\xc2\xb2",
)  # fmt: skip


def text(rng: Rng, data: bytes) -> bytes:
    """Damaged bytes, or hostile words in a text."""
    changing = bytearray(damaged(rng, data) if rng.random() < 0.5 else data)
    for _ in range(int(rng.integers(0, 3))):
        place = int(rng.integers(0, len(changing) + 1))
        changing[place : place + int(rng.integers(0, 4))] = WORDS[int(rng.integers(0, len(WORDS)))]
    return bytes(changing)


def journal_lines(check: bytes) -> OfBytes:
    """Lines of a journal with changed fields and right checksums; or damaged bytes."""

    def act(rng: Rng, data: bytes) -> bytes:
        if rng.random() < 0.4:
            return damaged(rng, data)
        lines = data.split(b"\n")
        number = int(rng.integers(0, len(lines) - 1))
        entry = json.loads(lines[number])
        entry.pop("crc", None)
        line = json.dumps(changed(rng, entry)).encode()
        lines[number] = line[:-1] + check % zlib.crc32(line[:-1]) if line.endswith(b"}") and len(line) > 2 else line
        return b"\n".join(lines)

    return act


checked_lines = journal_lines(b', "crc": "%08x"}')


def journal_records(rng: Rng, data: bytes) -> bytes:
    """A journal with a record whose fields were changed and whose checksum is right again; or damaged bytes."""
    if rng.random() < 0.4:
        return damaged(rng, data)
    with scratch_folder() as scratch:
        path = Path(scratch) / "journal"
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as connection, connection:
            rows = connection.execute("SELECT sequence, payload FROM journal").fetchall()
            sequence, payload = rows[int(rng.integers(0, len(rows)))]
            text = json.dumps(changed(rng, json.loads(payload)))
            crc = zlib.crc32(text.encode())
            connection.execute("UPDATE journal SET payload = ?, crc = ? WHERE sequence = ?", (text, crc, sequence))
        return path.read_bytes()
