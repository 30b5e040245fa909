"""Every kind of file that is read: a sound one, how it is damaged and sealed again, and its reader.

`python -m tests.hostile.kinds N SEED KIND…` reads N damaged files of each kind (`make fuzz`).
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from PIL import Image, PngImagePlugin

from likewise import SLR, AnchoredSLR, load
from likewise.anchored_checkpoint import AnchoredCheckpoint, Choice
from likewise.baselines import LDA, Cosine
from likewise.data import read_relevance
from likewise.features import FeatureStore, Pixels, extract_folder, load_extractor, load_image
from likewise.features.keywords import embedded_keywords
from likewise.features.sidecars import apply_keyword, undo_keyword
from likewise.paper.cells import Cell, CellJournal, Done
from likewise.persistence import read_tensors, write_tensors
from likewise.retrieval import Index, Teacher
from likewise.retrieval.teaching import opened_feedback
from likewise.selection.holdout import CVResults
from likewise.tables import read_table
from likewise.tables.xmp import EMPTY, Xmp
from tests.hostile.mutations import Rng, changed, changed_array, changed_json, damaged
from tests.hostile.runner import Files, Kind, main, scratch_folder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 5)).astype(np.float32)
Y = np.array(["ab"[i % 2] for i in range(24)])

# ---------------------------------------------------------------------------------------------------------------------
# Damage


def any_file(rng: Rng, files: Files) -> Files:
    """One file damaged, whichever."""
    name = sorted(files)[int(rng.integers(0, len(files)))]
    return {**files, name: damaged(rng, files[name])}


def resealed(rng: Rng, data: bytes) -> bytes:
    """A likewise file with changed tensors or card, and a checksum that is right again."""
    if rng.random() < 0.2:
        return damaged(rng, data)
    with scratch_folder() as scratch:
        path = Path(scratch) / "sealed"
        path.write_bytes(data)
        tensors, card = read_tensors(path)
        if tensors and rng.random() < 0.4:
            name = sorted(tensors)[int(rng.integers(0, len(tensors)))]
            tensors[name] = changed_array(rng, tensors[name])
            if rng.random() < 0.2:
                del tensors[name]
        else:
            card = changed(rng, card)
        if not isinstance(card, dict):
            return damaged(rng, data)
        write_tensors(path, tensors, card)
        return path.read_bytes()


def model_file(rng: Rng, files: Files) -> Files:
    name = sorted(files)[int(rng.integers(0, len(files)))]
    return {**files, name: resealed(rng, files[name])}


def npy(rng: Rng, files: Files) -> Files:
    """A header with other claims, or damaged bytes."""
    (name,) = files
    return {name: npy_bytes(rng, files[name])}


def npy_bytes(rng: Rng, data: bytes) -> bytes:
    if rng.random() < 0.5:
        return damaged(rng, data)
    length = int.from_bytes(data[8:10], "little")
    header = damaged(rng, data[10 : 10 + length]) if rng.random() < 0.5 else _claim(rng).encode()
    header = header[:9000]
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + length :]


def _claim(rng: Rng) -> str:
    types = [
        "<f4",
        "<f8",
        "|O",
        "<U100000000",
        "|V0",
        "<U0",
        "2000000000f4",
        ">f2",
        "|b1",
        "<c8",
        "<M8[D]",
        "|S9999999",
    ]
    shapes = ["(24, 5)", "(10**12,)", "(1000000000000, 5)", "(-1, 5)", "(0, 999999999999)", "()", "(24,)", "(5, 24, 1)"]
    facts = f"'descr': {str(rng.choice(types))!r}, 'fortran_order': {rng.choice(['True', 'False', '7'])}"
    return f"{{{facts}, 'shape': {rng.choice(shapes)}, }}\n"


def index_part(rng: Rng, files: Files) -> Files:
    """One part of an index damaged, and its checksum right again nine times in ten."""
    meta = next(name for name in files if name.endswith("meta.json") and "version-" in name)
    version = meta.rsplit("/", 1)[0]
    parts = [name for name in files if name.startswith(version) or name == "CURRENT"]
    faiss = [name for name in parts if name.endswith(".faiss")]
    name = sorted(parts)[int(rng.integers(0, len(parts)))]
    name = faiss[0] if faiss and rng.random() < 0.5 else name
    files = {**files, name: _damaged_part(rng, name, files[name])}
    if name not in (meta, "CURRENT") and rng.random() < 0.9:
        facts = json.loads(files[meta])
        facts["files"][name.rsplit("/", 1)[1]] = hashlib.sha256(files[name]).hexdigest()
        files[meta] = json.dumps(facts).encode()
    return files


def _damaged_part(rng: Rng, name: str, data: bytes) -> bytes:
    if name.endswith((".likewise", ".safetensors")):
        return resealed(rng, data)
    if name.endswith(".json"):
        return changed_json(rng, data)
    return npy_bytes(rng, data) if name.endswith(".npy") else damaged(rng, data)


def store_part(rng: Rng, files: Files) -> Files:
    name = sorted(files)[int(rng.integers(0, len(files)))]
    return {**files, name: _damaged_part(rng, name, files[name])}


def only(part: str, damage: Any) -> Any:
    """Damage of the one file whose name ends so."""

    def act(rng: Rng, files: Files) -> Files:
        name = next(name for name in sorted(files) if name.endswith(part))
        return {**files, name: damage(rng, files[name])}

    return act


def journal_lines(check: bytes) -> Any:
    """Lines of a journal with changed fields and right checksums; or damaged bytes."""

    def act(rng: Rng, data: bytes) -> bytes:
        if rng.random() < 0.4:
            return damaged(rng, data)
        lines = data.split(b"\n")
        number = int(rng.integers(0, len(lines) - 1))
        entry = json.loads(lines[number])
        entry.pop("crc", None)
        entry = changed(rng, entry)
        compact = (",", ":") if check.startswith(b',"') else None
        text = json.dumps(entry, separators=compact).encode()
        lines[number] = text[:-1] + check % zlib.crc32(text[:-1]) if text.endswith(b"}") and len(text) > 2 else text
        return b"\n".join(lines)

    return act


def archive(rng: Rng, files: Files) -> Files:
    """Damaged bytes; or an archive of arrays whose headers were changed."""
    name = sorted(files)[int(rng.integers(0, len(files)))]
    if rng.random() < 0.5:
        return {name: damaged(rng, files[name])}
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(files[name])) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for key in old.namelist():
            new.writestr(key, npy_bytes(rng, old.read(key)) if rng.random() < 0.5 else old.read(key))
    return {name: out.getvalue()}


TEXTS = (
    b"1e400",
    b"nan",
    b"9" * 400,
    b"\xff",
    b'"',
    b"\0",
    b"2000000000000",
    b"x" * 2000,
    b",,,,",
    b"\n",
    b"1_0",
    b"\xc2\xb2",
)


def text(rng: Rng, files: Files) -> Files:
    """Damaged bytes, or hostile words in a text."""
    name = sorted(files)[int(rng.integers(0, len(files)))]
    data = bytearray(damaged(rng, files[name]) if rng.random() < 0.5 else files[name])
    for _ in range(int(rng.integers(0, 3))):
        place = int(rng.integers(0, len(data) + 1))
        data[place : place + int(rng.integers(0, 4))] = TEXTS[int(rng.integers(0, len(TEXTS)))]
    return {name: bytes(data)}


# ---------------------------------------------------------------------------------------------------------------------
# Sound files and their readers


def _models(folder: Path) -> None:
    SLR(rank=2, n_iter=1).fit(X, Y).save(folder / "slr.likewise")
    LDA().fit(X, Y).save(folder / "lda.likewise")
    Cosine(centre=True).fit(X).save(folder / "cosine.likewise")
    AnchoredSLR(kernel="linear").fit(X, Y).save(folder / "anchored.likewise")


def _read_model(folder: Path) -> None:
    for path in folder.iterdir():
        model = load(path)
        model.similarity(X[:2])
        if model.calibration_ is not None:
            assert np.isfinite(model.predict_proba_pairs(X[:2])).all()
        if model.knows_classes:
            assert np.isfinite(model.novelty(X[:2])).all()


def _index(folder: Path, approximate: Any = False, neighbours: int = 2) -> None:
    items = {"id": [f"i{n}" for n in range(24)], "label": Y, "path": [f"p/{n}.png" for n in range(24)]}
    Index.build(Cosine(centre=True).fit(X), X, items, approximate=approximate, neighbours=neighbours).save(folder)


def _read_index(folder: Path) -> None:
    index = Index.load(folder)
    index.search(X[:2], 3)
    index.search_rows([0, 1], 3, raw=True)
    assert len(index.identities.keys) == len(index)


def _taught(folder: Path) -> None:
    _index(folder)
    index = Index.load(folder)
    teacher = Teacher(index, opened_feedback(index))
    teacher.mark(0, [2, 4], right=True)
    teacher.mark(np.ones((1, 5), np.float32), [1], right=False)
    teacher.label([3], "c")
    teacher.learn()
    teacher.undo()


def _lesson(folder: Path) -> None:
    _taught(folder)
    index = Index.load(folder)
    Teacher(index, opened_feedback(index)).learn()


def _store(folder: Path) -> None:
    FeatureStore.write(folder, X, Y, extractor=Pixels(2))


def _read_store(folder: Path) -> None:
    read_table(folder, names=False)
    FeatureStore.open(folder).extractor().transform(np.zeros((1, 4, 4, 3), np.uint8))


def _tables(name: str) -> Any:
    def make(folder: Path) -> None:
        mark = "\t" if name == "t.tsv" else ","
        rows = [mark.join([*map(str, row), label]) for row, label in zip(X[:6].tolist(), Y, strict=False)]
        (folder / name).write_text("\n".join([mark.join("abcde") + f"{mark}label", *rows]) + "\n")

    return make


def _npz(folder: Path) -> None:
    np.savez(folder / "plain.npz", X=X, y=Y, names=np.array([f"n{i}" for i in range(24)]))
    np.savez_compressed(folder / "small.npz", X=X, y=Y)
    sp.save_npz(folder / "sparse.npz", sp.csr_array(X))
    sp.save_npz(folder / "columns.npz", sp.csc_array(X))
    sp.save_npz(folder / "places.npz", sp.coo_array(X))


def _parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "label": Y}), folder / "wide.parquet")
    pq.write_table(pa.table({"embedding": X.tolist(), "label": Y}), folder / "lists.parquet")


def _svmlight(folder: Path) -> None:
    lines = [f"{i % 3} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(row)) for i, row in enumerate(X[:8])]
    (folder / "t.svm").write_text("\n".join(lines) + "\n")


def _relevance(folder: Path) -> None:
    (folder / "a.csv").write_text("query,item,grade\n0,1,1\n0,2,0\n1,2,3\n")
    (folder / "b.tsv").write_text("anchor\tpositive\tnegative\n0\t1\t2\n1\t2\t0\n")
    (folder / "c.csv").write_text("query,item,clicked,position\n0,1,1,2\n0,2,0,1\n")
    (folder / "d.csv").write_text("a,b,link\n0,1,must\n1,2,cannot\n")


def _read_relevance(folder: Path) -> None:
    for path in folder.iterdir():
        read_relevance(path)


def _read_tables(folder: Path) -> None:
    for path in folder.iterdir():
        read_table(path)


def _images(folder: Path) -> None:
    pixels = RNG.integers(0, 256, (16, 12, 3), dtype=np.uint8)
    for ending in ("png", "jpg", "gif", "webp", "bmp", "tiff"):
        Image.fromarray(pixels).save(folder / f"a.{ending}")


def _read_images(folder: Path) -> None:
    for path in folder.iterdir():
        load_image(path, 8)


def _one_image(rng: Rng, files: Files) -> Files:
    name = sorted(files)[int(rng.integers(0, len(files)))]
    return {name: damaged(rng, files[name])}


def _sidecars(folder: Path) -> None:
    """Sidecars in several encodings and forms, and pictures with packets inside."""
    empty = Xmp(EMPTY)
    sound = empty.edited(empty.added({"dc:subject": ["cat", "Ünï"], "lr:hierarchicalSubject": ["animals|cat"]}))
    (folder / "a.xmp").write_bytes(sound)
    (folder / "b.xmp").write_bytes(sound.decode().encode("utf-16"))
    (folder / "c.xmp").write_bytes(sound.replace(b"<dc:subject>", b"<dc:subject><!-- x -->").replace(b"Bag", b"Seq"))
    for ending in ("jpg", "webp"):
        Image.new("RGB", (4, 4)).save(folder / f"a.{ending}", xmp=sound)
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", sound.decode(), zip=True)
    Image.new("RGB", (4, 4)).save(folder / "a.png", pnginfo=info)


def _read_sidecars(folder: Path) -> None:
    """A keyword comes into what can be read, and out of it again, or there is a sentence."""
    for path in sorted(folder.iterdir()):
        if path.suffix != ".xmp":
            embedded_keywords(path)
            continue
        data = path.read_bytes()
        xmp = Xmp(data)
        edits = xmp.added({"dc:subject": ["new & <keyword>"], "digiKam:TagsList": ["new & <keyword>"]})
        after = Xmp(xmp.edited(edits))
        assert "new & <keyword>" in after.words("dc:subject")
        assert after.reverted(edits) == data
        Xmp(after.edited(after.removed({"dc:subject": ["new & <keyword>", "cat"]})))


def _undo_list(folder: Path) -> None:
    for number in range(3):
        Image.new("RGB", (4, 4)).save(folder / f"{number}.jpg")
    apply_keyword(sorted(folder.glob("*.jpg")), "cat", folder / "undo.jsonl")


def _read_undo_list(folder: Path) -> None:
    """Whatever the list says, no picture is touched."""
    pictures = {path: path.read_bytes() for path in folder.glob("*.jpg")}
    made, here = (json.dumps(str(folder) + end)[1:-1].encode() for end in (".sound/", "/"))
    (folder / "undo.jsonl").write_bytes((folder / "undo.jsonl").read_bytes().replace(made, here))
    try:
        undo_keyword(folder / "undo.jsonl")
    finally:
        assert {path: path.read_bytes() for path in folder.glob("*.jpg")} == pictures


def _extraction(folder: Path) -> None:
    """A run that ended before its features were written."""
    for number in range(3):
        path = folder / "photos" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(path)
    import likewise.features.pipeline as pipeline

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    kept = pipeline._Extraction._finish
    pipeline._Extraction._finish = stop  # type: ignore[method-assign,assignment]
    try:
        extract_folder(folder / "photos", folder / "out", Pixels(2, n_jobs=1))
    except Stop:
        pass
    finally:
        pipeline._Extraction._finish = kept  # type: ignore[method-assign]


def _work_part(rng: Rng, files: Files) -> Files:
    """The journal, its rows or its request damaged."""
    parts = sorted(name for name in files if "/.work/" in name)
    name = parts[int(rng.integers(0, len(parts)))]
    whole = journal_lines(b', "crc": %d}')(rng, files[name]) if name.endswith("jsonl") else damaged(rng, files[name])
    return {**files, name: whole}


def _read_extraction(folder: Path) -> None:
    summary = extract_folder(folder / "photos", folder / "out", Pixels(2, n_jobs=1))
    expected = Pixels(2, n_jobs=1).transform([folder / "photos" / f"{number}.png" for number in range(3)])
    assert summary.n_items == 3
    assert np.array_equal(FeatureStore.open(folder / "out").features, expected), "rows of other pictures"


HEADER = {"dataset": "digits", "seed": 0}


def _cells(folder: Path) -> None:
    journal = CellJournal(folder, HEADER)
    journal.add_command("likewise paper digits")
    for split in range(3):
        cell = Cell("tables", "LDA", split, 2.0, {"mAP": 0.5 + split / 10}, {"rank": 3}, {"fit_seconds": 0.1})
        journal.add(("tables", "LDA", split), Done([cell], {"facts": [1, 2]}))


def _read_cells(folder: Path) -> None:
    journal = CellJournal(folder, HEADER, resume=True)
    journal.add(("tables", "SLR", 0), Done([Cell("tables", "SLR", 0, 1.0, {"mAP": 0.5})]))
    assert len(CellJournal(folder, HEADER, resume=True).done) == len(journal.done)


def _checkpoint(folder: Path) -> None:
    SLR(rank=2, n_iter=1, checkpoint=folder / "slr", random_state=0).fit(X, Y)
    anchored = AnchoredCheckpoint(folder / "anchored", {"method": "x"}, np.ones(3))
    anchored.keep(Choice({"ridge": 0.1}, 7, CVResults([]), {"mAP": 0.5}))
    anchored.rounds_of(np.eye(3)).save(np.ones((3, 2)), 2)


def _read_checkpoint(folder: Path) -> None:
    SLR(rank=2, n_iter=2, checkpoint=folder / "slr", random_state=0).fit(X, Y)
    anchored = AnchoredCheckpoint(folder / "anchored", {"method": "x"}, np.ones(3))
    if anchored.choice() is not None:
        anchored.rounds_of(np.eye(3)).resume(np.ones((3, 2)))


def _extractors(folder: Path) -> None:
    Pixels(4).save(folder / "pixels.safetensors")
    onnx_extractor(folder).save(folder / "onnx.safetensors")
    (folder / "model.onnx").unlink()


def onnx_extractor(folder: Path) -> Any:
    import onnx
    from onnx import TensorProto, helper

    from likewise.features.onnx import OnnxExtractor

    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    found = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 8, 8])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [given], [found])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx"
    )
    return OnnxExtractor(folder / "model.onnx", n_jobs=1)


def _read_extractors(folder: Path) -> None:
    for path in folder.iterdir():
        made = load_extractor(path)
        made.n_jobs = 1
        made.transform(np.zeros((1, 8, 8, 3), np.uint8))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("model", _models, model_file, _read_model),
        Kind("index", _index, index_part, _read_index),
        Kind("index, hnsw", lambda folder: _index(folder, "hnsw", 0), index_part, _read_index),
        Kind("index, ivf", lambda folder: _index(folder, "ivf", 0), index_part, _read_index),
        Kind("feature store", _store, store_part, _read_store),
        Kind("npz", _npz, archive, _read_tables),
        Kind("npy", lambda folder: np.save(folder / "t.npy", X), npy, _read_tables),
        Kind("csv", _tables("t.csv"), text, _read_tables),
        Kind("tsv", _tables("t.tsv"), text, _read_tables),
        Kind("parquet", _parquet, any_file, _read_tables),
        Kind("svmlight", _svmlight, text, _read_tables),
        Kind("relevance", _relevance, text, _read_relevance),
        Kind("images", _images, _one_image, _read_images),
        Kind("xmp", _sidecars, _one_image, _read_sidecars),
        Kind("undo list", _undo_list, only("undo.jsonl", journal_lines(b', "crc": "%08x"}')), _read_undo_list),
        Kind("feedback", _taught, only("feedback.jsonl", journal_lines(b',"crc":"%08x"}')), _read_index),
        Kind("lesson", _lesson, only(".likewise", resealed), _read_index),
        Kind("extraction", _extraction, _work_part, _read_extraction),
        Kind("paper cells", _cells, only("cells.jsonl", journal_lines(b', "crc": "%08x"}')), _read_cells),
        Kind("checkpoint", _checkpoint, model_file, _read_checkpoint),
        Kind("extractor", _extractors, model_file, _read_extractors),
    )
}

if __name__ == "__main__":
    main(KINDS)
