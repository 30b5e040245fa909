"""Searches that arrive together."""

from __future__ import annotations

import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.rivals import LDA
from likewise.search import Index
from likewise.serve import create_app
from likewise.serve.jobs import Job
from likewise.teach import load_index
from tests.processes import Python
from tests.serve.conftest import ask, talking


def test_searches_that_meet_each_get_their_own_answer(client: Any) -> None:
    alone = {row: client.get(f"/api/search?row={row}&k=5").json()["hits"] for row in range(40)}
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda row: client.get(f"/api/search?row={row}&k=5").json()["hits"], range(40)))
    for hits, expected in zip(together, alone.values(), strict=True):
        assert [hit["row"] for hit in hits] == [hit["row"] for hit in expected]
        # One row times the gallery and many rows times it may round differently.
        np.testing.assert_allclose([hit["score"] for hit in hits], [hit["score"] for hit in expected], atol=1e-5)


def test_an_approximate_index_is_searched_by_its_own_engine(digits: Any) -> None:
    pytest.importorskip("faiss")
    X, y, G, labels = digits
    index = Index.build(LDA().fit(X, y), G, {"label": labels}, approximate="hnsw")
    with talking(create_app(index)) as client:
        for row in (0, 5):
            hits = client.get(f"/api/search?row={row}&k=10").json()["hits"]
            exact = ask(client, like=[{"row": row}], k=10)["hits"]
            assert len(hits) == 10
            assert row not in [hit["row"] for hit in hits]
            assert len({hit["row"] for hit in hits} & {hit["row"] for hit in exact}) >= 9


SERVED = """
import sys, time
from pathlib import Path
import numpy as np
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.serve.server import serve
from likewise.serve.settings import ServerSettings
from likewise.serve.jobs import Job
from likewise.teach import load_index

def ready(address):
    job.start(lambda: time.sleep(120))
    print("learning", flush=True)

job, X = Job("lesson"), np.eye(4, 3)
serve(Index.build(Cosine().fit(X), X), Path(sys.argv[1]), ServerSettings(port=0), browser=False, ready=ready)
"""


def test_ctrl_c_does_not_wait_for_a_lesson(tmp_path: Path) -> None:
    with Python("-c", SERVED, tmp_path, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "learning\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            process.wait(30)  # the lesson takes 120 s
        finally:
            process.kill()


def test_a_job_does_one_thing_after_the_other_and_nothing_once_closed() -> None:
    job, done = Job("lesson"), list[int]()
    assert job.start(lambda: done.append(1))
    job.submit(lambda: 1 / 0)
    job.wait()
    assert job.start(lambda: done.append(2))
    job.wait()
    assert (job.state, done) == ("done", [1, 2])
    job.start(lambda: time.sleep(0.2))
    with pytest.raises(TimeoutError, match="lesson is still running"):
        job.wait(0.01)
    job.close()
    with pytest.raises(RuntimeError, match="lesson is closed"):
        job.submit(lambda: done.append(3))
    assert done == [1, 2]


def test_searches_over_http_are_those_in_process(client: Any, index_folder: Path) -> None:
    index = load_index(index_folder)
    X = np.asarray(index.raw[:24])
    expected = index.search(X, k=6)
    bodies = [{"vector": row.tolist(), "k": 6} for row in X]
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda body: client.post("/api/search", json=body).json(), bodies))
    for number, response in enumerate(responses):
        assert [hit["row"] for hit in response["hits"]] == expected.rows[number].tolist()
        np.testing.assert_allclose([hit["score"] for hit in response["hits"]], expected.scores[number], atol=1e-5)
        likely = None if expected.probabilities is None else expected.probabilities[number].tolist()
        if likely is not None:
            np.testing.assert_allclose([hit["probability"] for hit in response["hits"]], likely, atol=1e-5)
        novelty = None if expected.novelty is None else float(expected.novelty[number])
        assert response["novelty"] == (None if novelty is None else pytest.approx(novelty, abs=1e-5))


def test_a_body_that_is_no_json_is_refused(client: Any) -> None:
    plain = client.post("/api/search", content=b'{"id": "1"}', headers={"Content-Type": "application/octet-stream"})
    assert plain.status_code == 415
    damaged = client.post("/api/search", content=b'{"id": ', headers={"Content-Type": "application/json"})
    assert (damaged.status_code, damaged.json()["detail"][0]["loc"]) == (422, ["body"])
