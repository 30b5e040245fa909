"""Names that are not UTF-8, tiny files with large claims, closed standard input, weights that are elsewhere."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from likewise import load
from likewise.errors import LikewiseError
from likewise.learn.model_file import write_tensors
from likewise.paper.cells import Cell, CellJournal, Done
from likewise.pictures.onnx import OnnxExtractor
from likewise.rows import FeatureStore, Relevance, read_relevance, read_table
from likewise.serve.library import update_library
from likewise.teach import load_index
from tests.hostile.forks import in_a_fork, likewise

# ---------------------------------------------------------------------------------------------------------------------
# Names of bytes


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Pictures whose names, folders and root are not UTF-8."""
    root = os.fsencode(tmp_path) + b"/r\xff/photos\xfe"
    for number in range(12):
        folder = os.path.join(root, (b"caf\xe9", b"plain")[number % 2])
        os.makedirs(folder, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        with open(os.path.join(folder, b"%d\xfd.png" % number), "wb") as file:
            Image.fromarray(pixels).save(file, "png")
    return Path(os.fsdecode(root))


def test_a_library_of_byte_names_is_saved_loaded_and_brought_up_to_date(photos: Path) -> None:
    built = update_library(photos, extractor="pixels", labels="folders")
    index = load_index(built.folder)
    assert index.labels is not None
    assert set(index.labels) == {"caf\\xe9", "plain"}
    assert all(path is not None and path.is_file() for path in map(index.image_path, range(len(index))))
    assert not update_library(photos).written


def test_the_api_answers_for_byte_names(photos: Path) -> None:
    pytest.importorskip("fastapi")
    from likewise.serve import ServerSettings, create_app
    from tests.serve.conftest import talking

    folder = update_library(photos, extractor="pixels", labels="folders").folder
    app = create_app(load_index(folder), ServerSettings(), folder)
    with talking(app) as client:
        for address in ("/api/items?limit=20", "/api/search?row=0&k=5", "/api/index", "/"):
            assert client.get(address).status_code in (200, 404), address
        items = client.get("/api/items?limit=20").json()["items"]
        assert {item["label"] for item in items} == {"caf\\xe9", "plain"}


@pytest.mark.second
def test_the_verbs_take_and_print_byte_names(photos: Path) -> None:
    base = str(photos)
    commands = [
        ("features", photos, "-o", f"{base}.features", "-e", "pixels"),
        ("fit", f"{base}.features", "-o", f"{base}.likewise", "--method", "lda"),
        ("compare", f"{base}.features", "--methods", "cosine", "--no-unseen", "-o", f"{base}.html"),
        ("index", f"{base}.likewise", f"{base}.features", "-o", f"{base}.index", "--export", f"{base}.npz"),
        ("search", f"{base}.index", "--row", "1"),
    ]
    for command in commands:
        done = likewise(*command)
        assert done.returncode == 0, (command[0], done.stderr)
    done = likewise("search", f"{base}.index", "--row", "1", "--json")
    hit = json.loads(done.stdout.decode("utf-8"))[0]["results"][0]
    assert Path(hit["path"]).is_file()


# ---------------------------------------------------------------------------------------------------------------------
# Tiny files, huge claims: each is read in a process that may not have much


def _card(folder: Path) -> Path:
    state = {"classes_": {"__ndarray__": "<U100000000", "values": ["a", "b", "c"]}}
    return write_tensors(folder / "m.likewise", {"x_": np.ones(2)}, {"class": "LDA", "parameters": {}, "state": state})


def _npy(folder: Path) -> Path:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (500000000, 2), }\n"
    (folder / "t.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)
    return folder / "t.npy"


def _npz(folder: Path) -> Path:
    import zipfile

    with zipfile.ZipFile(folder / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", _npy(folder).read_bytes())
    return folder / "t.npz"


def _svm(folder: Path) -> Path:
    (folder / "t.svm").write_text("1 1:0.5\n2 1000000000000:0.5\n")
    return folder / "t.svm"


def _label(folder: Path) -> Path:
    rows = "".join(f"{i},x\n" for i in range(20_000))
    (folder / "t.csv").write_text(f"a,label\n{rows}1,{'y' * 100_000}\n")
    return folder / "t.csv"


CLAIMS = {"a card": _card, ".npy": _npy, ".npz": _npz, "svmlight": _svm, "a label": _label}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_tiny_file_takes_no_huge_memory(tmp_path: Path, name: str) -> None:
    path = CLAIMS[name](tmp_path)

    def work() -> None:
        before, pages = _most_memory(), int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + (3 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        with pytest.raises(LikewiseError):
            load(path) if path.suffix == ".likewise" else read_table(path)
        assert _most_memory() - before < 300 << 20

    done = in_a_fork(work)
    assert done.returncode == 0, done.stderr


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_a_row_of_two_trillion_is_no_matrix(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("query,item\n2000000000000,1\n")
    with pytest.raises(LikewiseError, match="query 2,000,000,000,000 of the relevance is above 50,000,000"):
        read_relevance(tmp_path / "r.csv")
    with pytest.raises(LikewiseError, match="above 50,000,000"):
        Relevance.from_pairs([[0, 10**12]])
    with pytest.raises(LikewiseError, match="above 50,000,000"):
        Relevance.from_clicks([0], [10**12])


# ---------------------------------------------------------------------------------------------------------------------
# The rest


@pytest.mark.parametrize("words", [("fit", "-", "-o", "m.likewise"), ("doctor", "-"), ("compare", "-")])
def test_a_closed_standard_input_is_a_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    def first() -> None:
        os.chdir(tmp_path)
        os.close(0)
        sys.stdin = None  # type: ignore[assignment]

    done = likewise(*words, first=first)
    assert done.returncode == 2
    assert b"standard input is closed" in done.stderr
    assert b"Traceback" not in done.stderr


def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    found = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 8, 8])
    weights = numpy_helper.from_array(np.ones((1, 3, 8, 8), np.float32), "w")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [given], [found], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    OnnxExtractor(tmp_path / "m.onnx", mean=0, std=1, crop=1).prepare()
    (tmp_path / "w.bin").unlink()
    with pytest.raises(LikewiseError, match=r"m\.onnx are in another file, which cannot be read"):
        OnnxExtractor(tmp_path / "m.onnx", mean=0, std=1, crop=1).prepare()


def test_a_matrix_with_places_outside_is_refused(tmp_path: Path) -> None:
    parts = {"data": np.ones(2), "indices": np.array([0, 99]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 3])}
    np.savez(tmp_path / "t.npz", **parts)
    with pytest.raises(LikewiseError, match=r"t\.npz is not a \.npz file, or it is truncated"):
        read_table(tmp_path / "t.npz")


def test_results_of_the_paper_are_never_thrown_away(tmp_path: Path) -> None:
    header = {"seed": 0}
    for number in range(3):
        journal = CellJournal(tmp_path, header)
        journal.add(("tables", str(number), 0), Done([Cell("tables", str(number), 0, 1.0, {"mAP": 0.5})]))
    kept = sorted(path.name for path in tmp_path.glob("cells.previous*"))
    assert kept == ["cells.previous-2.sqlite", "cells.previous.sqlite"]
    data = bytearray((tmp_path / "cells.sqlite").read_bytes())
    data[3] ^= 1
    (tmp_path / "cells.sqlite").write_bytes(data)
    with pytest.raises(LikewiseError, match=r"cells.sqlite is not a journal"):
        CellJournal(tmp_path, header, resume=True)
    assert (tmp_path / "cells.sqlite").read_bytes() == data


def test_a_flipped_bit_in_a_result_is_said_and_the_file_kept(tmp_path: Path) -> None:
    journal = CellJournal(tmp_path, {"seed": 0})
    for split in range(3):
        journal.add(("tables", "LDA", split), Done([Cell("tables", "LDA", split, 1.0, {"mAP": 0.5})]))
    data = (tmp_path / "cells.sqlite").read_bytes()
    damaged = data.replace(b'"mAP":0.5', b'"mAP":0.4', 1)
    (tmp_path / "cells.sqlite").write_bytes(damaged)
    again = CellJournal(tmp_path, {"seed": 0}, resume=True)
    assert again.damaged == 1
    assert len(again.done) == 2
    assert journal.path.read_bytes() == damaged


def test_a_store_of_byte_labels_is_read_as_text(tmp_path: Path) -> None:
    store = FeatureStore.write(tmp_path / "s", np.ones((2, 2)), ["caf\udce9", "b"])
    assert store.labels is not None
    assert store.labels.tolist() == ["caf\\xe9", "b"]
