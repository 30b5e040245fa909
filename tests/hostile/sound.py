"""A sound file of every kind that is read, and its reader."""

from __future__ import annotations

import io
import json
import sqlite3
import zlib
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from PIL import Image, PngImagePlugin

from likewise import SLR, SimilarityLearner, load, open_rows
from likewise.learn.checkpoints import SavedChoice
from likewise.learn.choose.anchored_search import Choice
from likewise.learn.choose.search import CVResults
from likewise.learn.embedding_map import EmbeddingMap
from likewise.paper.cells import Cell, CellJournal, Done
from likewise.pictures import Pixels, extract_folder, load_extractor, load_image
from likewise.pictures.keywords import embedded_keywords
from likewise.pictures.llc import LLC
from likewise.pictures.sidecars import apply_keyword, undo_keyword
from likewise.pictures.xmp import EMPTY, Xmp
from likewise.rivals import LDA, Cosine
from likewise.rows import FeatureStore, Relevance, read_relevance, read_table
from likewise.search import Index
from likewise.teach import Teacher, load_index
from likewise.teach.teacher import in_force, opened_feedback
from tests.hostile.random_problems import ESTIMATORS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 5)).astype(np.float32)
Y = np.array(["ab"[i % 2] for i in range(24)])


def write_models(folder: Path) -> None:
    SLR(rank=2, max_iter=1).fit(X, Y).save(folder / "slr.likewise")
    LDA().fit(X, Y).save(folder / "lda.likewise")
    Cosine(centre=True).fit(X).save(folder / "cosine.likewise")
    SimilarityLearner(kernel="linear").fit(X, Y).save(folder / "anchored.likewise")


def read_model(folder: Path) -> None:
    for path in folder.iterdir():
        model = load(path)
        model.similarity(X[:2])
        if model.calibration_ is not None:
            assert np.isfinite(model.predict_proba_pairs(X[:2])).all()
        if model.knows_classes:
            assert np.isfinite(model.novelty(X[:2])).all()


def write_every_model(folder: Path) -> None:
    """One of each class."""
    for name, make in {type(make()): (name, make) for name, make in reversed(ESTIMATORS.items())}.values():
        relevance = name.startswith("relevance")
        make().fit(X, Relevance(Y[:, None] == Y) if relevance else Y).save(folder / f"{name}.likewise")
    EmbeddingMap().fit(X, X).save(folder / "map.likewise")


def read_every_model(folder: Path) -> None:
    for path in folder.iterdir():
        model = load(path)
        assert np.isfinite(model.transform(X[:2]) if path.stem == "map" else model.similarity(X[:2])).all()


def write_index(folder: Path, approximate: Any = False, n_neighbors: int = 2) -> None:
    items = {"id": [f"i{n}" for n in range(24)], "label": Y, "path": [f"p/{n}.png" for n in range(24)]}
    columns = {"price": [None, *range(23)], "text": [f"text {n}" for n in range(24)], "sold": [True, False] * 12}
    items |= {} if approximate else columns
    Index.build(Cosine(centre=True).fit(X), X, items, approximate=approximate, n_neighbors=n_neighbors).save(folder)


def read_index(folder: Path) -> None:
    index = load_index(folder)
    index.search(X[:2], k=3)
    index.search(rows=[0, 1], k=3, space="raw")
    assert len(index.identities.keys) == len(index)
    if index.metadata is not None:
        assert len(index.metadata.rows(range(len(index)))) == len(index)
        index.search(X[:2], k=3, where=" or ".join(f"`{name}` is null" for name in index.metadata.names) or None)


def read_taught(folder: Path) -> None:
    """What is damaged is passed over or learned again: the index answers."""
    assert in_force(_untaught(folder)).search(X[:1], k=3).ids.shape == (1, 3)


@cache
def _untaught(folder: Path) -> Index:
    """Read once: of a journal and a lesson that are damaged, the index is always the same."""
    return Index.load(folder)


def write_marks(folder: Path) -> None:
    write_index(folder)
    index = load_index(folder)
    teacher = Teacher(index, opened_feedback(index))
    teacher.mark(0, [2, 4], right=True)
    teacher.mark(np.ones((1, 5), np.float32), [1], right=False)
    teacher.label([3], "c")
    teacher.learn()
    teacher.undo()


def write_lesson(folder: Path) -> None:
    """As little as can be learned from: where it is damaged it is learned again."""
    write_index(folder, n_neighbors=0)
    index = load_index(folder)
    teacher = Teacher(index, opened_feedback(index))
    teacher.mark(0, [2], right=True)
    teacher.mark(0, [1], right=False)
    teacher.learn()


def write_store(folder: Path) -> None:
    FeatureStore.write(folder, X, Y, extractor=Pixels(2))


def read_store(folder: Path) -> None:
    read_table(folder, names=False)
    FeatureStore.open(folder).extractor().transform(np.zeros((1, 4, 4, 3), np.uint8))


def write_text(name: str) -> Any:
    def make(folder: Path) -> None:
        mark = "\t" if name == "t.tsv" else ","
        rows = [mark.join([*map(str, row), label]) for row, label in zip(X[:6].tolist(), Y, strict=False)]
        (folder / name).write_text("\n".join([mark.join("abcde") + f"{mark}label", *rows]) + "\n")

    return make


def write_npz(folder: Path) -> None:
    np.savez(folder / "plain.npz", X=X, y=Y, names=np.array([f"n{i}" for i in range(24)]))
    np.savez_compressed(folder / "small.npz", X=X, y=Y)
    sp.save_npz(folder / "sparse.npz", sp.csr_array(X))
    sp.save_npz(folder / "columns.npz", sp.csc_array(X))
    sp.save_npz(folder / "places.npz", sp.coo_array(X))


def write_parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "label": Y}), folder / "wide.parquet")
    pq.write_table(pa.table({"embedding": X.tolist(), "label": Y}), folder / "lists.parquet")


def write_svmlight(folder: Path) -> None:
    lines = [f"{i % 3} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(row)) for i, row in enumerate(X[:8])]
    (folder / "t.svm").write_text("\n".join(lines) + "\n")


def write_clicks(folder: Path) -> None:
    (folder / "a.csv").write_text("query,item,grade\n0,1,1\n0,2,0\n1,2,3\n")
    (folder / "b.tsv").write_text("anchor\tpositive\tnegative\n0\t1\t2\n1\t2\t0\n")
    (folder / "c.csv").write_text("query,item,clicked,position\n0,1,1,2\n0,2,0,1\n")
    (folder / "d.csv").write_text("a,b,link\n0,1,must\n1,2,cannot\n")


def read_clicks(folder: Path) -> None:
    for path in folder.iterdir():
        read_relevance(path)


def read_tables(folder: Path) -> None:
    for path in folder.iterdir():
        table = read_table(path)
        if table.metadata is not None:
            table.metadata()


def write_images(folder: Path) -> None:
    pixels = RNG.integers(0, 256, (16, 12, 3), dtype=np.uint8)
    for ending in ("png", "jpg", "gif", "webp", "bmp", "tiff"):
        Image.fromarray(pixels).save(folder / f"a.{ending}")


def read_images(folder: Path) -> None:
    for path in folder.iterdir():
        load_image(path, 8)


def write_sidecars(folder: Path) -> None:
    """Sidecars in several encodings and forms, and pictures with packets inside."""
    xmp = Xmp(EMPTY)
    xmp.add({"dc:subject": ["cat", "Ünï"], "lr:hierarchicalSubject": ["animals|cat"]})
    sound = xmp.to_bytes()
    (folder / "a.xmp").write_bytes(sound)
    (folder / "b.xmp").write_bytes(sound.decode().encode("utf-16"))
    (folder / "c.xmp").write_bytes(sound.replace(b"<dc:subject>", b"<dc:subject><!-- x -->").replace(b"Bag", b"Seq"))
    for ending in ("jpg", "webp"):
        Image.new("RGB", (4, 4)).save(folder / f"a.{ending}", xmp=sound)
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", sound.decode(), zip=True)
    Image.new("RGB", (4, 4)).save(folder / "a.png", pnginfo=info)


def read_sidecars(folder: Path) -> None:
    """A keyword comes into what can be read, and out of it again, or there is a sentence."""
    for path in sorted(folder.iterdir()):
        if path.suffix != ".xmp":
            embedded_keywords(path)
            continue
        xmp = Xmp(path.read_bytes())
        xmp.add({"dc:subject": ["new & <keyword>"], "digiKam:TagsList": ["new & <keyword>"]})
        after = Xmp(xmp.to_bytes())
        assert "new & <keyword>" in after.words("dc:subject")
        after.remove({"dc:subject": ["new & <keyword>", "cat"]})
        Xmp(after.to_bytes())


def write_undo_list(folder: Path) -> None:
    for number in range(3):
        Image.new("RGB", (4, 4)).save(folder / f"{number}.jpg")
    apply_keyword(sorted(folder.glob("*.jpg")), "cat", folder / "undo.sqlite")


def read_undo_list(folder: Path) -> None:
    """Whatever the list says, no picture is touched."""
    pictures = {path: path.read_bytes() for path in folder.glob("*.jpg")}
    made, here = (json.dumps(str(folder) + end)[1:-1] for end in (".sound/", "/"))
    with suppress(sqlite3.Error), closing(sqlite3.connect(folder / "undo.sqlite")) as connection, connection:
        for sequence, text, crc in connection.execute("SELECT sequence, payload, crc FROM journal").fetchall():
            if isinstance(text, str) and zlib.crc32(text.encode()) == crc:
                moved = text.replace(made, here)
                values = moved, zlib.crc32(moved.encode()), sequence
                connection.execute("UPDATE journal SET payload = ?, crc = ? WHERE sequence = ?", values)
    try:
        undo_keyword(folder / "undo.sqlite")
    finally:
        assert {path: path.read_bytes() for path in folder.glob("*.jpg")} == pictures


def write_extraction(folder: Path) -> None:
    """A run that ended before its features were written."""
    for number in range(3):
        path = folder / "photos" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(path)
    import likewise.pictures.pipeline as pipeline

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


def read_extraction(folder: Path) -> None:
    assert extract_folder(folder / "photos", folder / "out", Pixels(2, n_jobs=1)).n_items == 3
    pictures = tuple((folder / "photos" / f"{number}.png").read_bytes() for number in range(3))
    assert np.array_equal(FeatureStore.open(folder / "out").features, _pixels_of(pictures)), "rows of other pictures"


@cache
def _pixels_of(pictures: tuple[bytes, ...]) -> np.ndarray:
    opened = [np.asarray(Image.open(io.BytesIO(data))) for data in pictures]
    return np.asarray(Pixels(2, n_jobs=1).transform(opened))


HEADER = {"dataset": "digits", "seed": 0}


def write_cells(folder: Path) -> None:
    journal = CellJournal(folder, HEADER)
    journal.add_command("likewise paper digits")
    for split in range(3):
        cell = Cell("tables", "LDA", split, 2.0, {"mAP": 0.5 + split / 10}, {"rank": 3}, {"fit_seconds": 0.1})
        journal.add(("tables", "LDA", split), Done([cell], {"facts": [1, 2]}))


def read_cells(folder: Path) -> None:
    journal = CellJournal(folder, HEADER, resume=True)
    journal.add(("tables", "SLR", 0), Done([Cell("tables", "SLR", 0, 1.0, {"mAP": 0.5})]))
    assert len(CellJournal(folder, HEADER, resume=True).done) == len(journal.done)


def write_checkpoint(folder: Path) -> None:
    SLR(rank=2, max_iter=1, random_state=0).fit(open_rows(X, Y, checkpoint=folder / "slr"))
    anchored = SavedChoice(folder / "anchored", {"method": "x"}, np.ones(3))
    anchored.keep(Choice({"ridge": 0.1}, 7, CVResults([]), {"mAP": 0.5}))


def read_checkpoint(folder: Path) -> None:
    if (folder / "slr").exists():
        SLR(rank=2, max_iter=2, random_state=0).fit(open_rows(X, Y, checkpoint=folder / "slr"))
        return
    SavedChoice(folder / "anchored", {"method": "x"}, np.ones(3)).choice()


def write_extractors(folder: Path) -> None:
    Pixels(4).save(folder / "pixels.safetensors")
    onnx_extractor(folder).save(folder / "onnx.safetensors")
    (folder / "model.onnx").unlink()
    small = LLC(n_words=6, n_components=2, n_neighbors=2, n_descriptors=50)
    small.fit(RNG.integers(0, 256, (6, 24, 24, 3), dtype=np.uint8)).save(folder / "llc.safetensors")


def onnx_extractor(folder: Path) -> Any:
    import onnx
    from onnx import TensorProto, helper

    from likewise.pictures.onnx import OnnxExtractor

    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    found = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 8, 8])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [given], [found])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx"
    )
    return OnnxExtractor(folder / "model.onnx", mean=0.5, std=0.5, crop=1.0, n_jobs=1)


def read_extractors(folder: Path) -> None:
    for path in folder.iterdir():
        made = load_extractor(path)
        made.n_jobs = 1
        side = 24 if path.stem == "llc" else 8
        assert np.isfinite(made.transform(np.full((1, side, side, 3), 7, np.uint8))).all()
