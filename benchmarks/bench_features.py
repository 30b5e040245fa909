"""Feature extraction: milliseconds per image, compared with decoding alone, the lower limit."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["rows"]

_N = 48  # images per timing


def rows() -> list[dict[str, object]]:
    """Milliseconds per 300 × 300 image and images per second, compared with decoding alone."""
    from likewise.pictures import EfficientNetLite0, load_image

    files = photographs()
    decoding, decoding_cpu = (
        _best(lambda: [load_image(file) for file in files], clock=clock) / _N
        for clock in (time.perf_counter, time.thread_time)
    )
    coder = _ready_llc()
    image = load_image(files[0])
    # processor time of one core: the wall-clock time on an idle machine
    one_core = _best(lambda: _single_threaded(lambda: coder.rows([image])), repeat=7, clock=time.thread_time)
    table = [
        _row(
            "SIFT + LLC coding of a 300 × 300 image, three scales, 2,048 words, one core (processor time)",
            one_core,
            decoding_cpu,
            100,
        )
    ]
    for name, extractor, goal in (
        ("EfficientNet-Lite0, an image on all cores, decoding included", EfficientNetLite0(), 60),
        ("LLC, an image on all cores, decoding included", coder, None),
    ):
        extractor.transform(files[:2])  # starts the session
        table.append(_row(name, _best(lambda e=extractor: e.transform(files), repeat=3) / _N, decoding, goal))
    return table


def _row(what: str, seconds: float, decoding: float, goal: float | None) -> dict[str, object]:
    return {
        "what": what,
        "ours": f"{seconds * 1e3:.1f} ms ({1 / seconds:.1f} images/s)",
        "rival": f"decoding alone {decoding * 1e3:.1f} ms ({1 / decoding:.1f} images/s)",
        "ratio": round(seconds / decoding, 2),
        "goal": "" if goal is None else f"< {goal} ms",
    }


def _ready_llc() -> Any:
    """An LLC extractor with 2,048 random descriptors as words: coding takes the same time for any words."""
    from likewise.pictures import LLC, load_image

    coder = LLC(n_components=None)
    D = np.concatenate([coder.descriptors(load_image(file))[0] for file in photographs(4)])
    coder.codebook_ = D[np.random.default_rng(0).permutation(len(D))[: coder.n_words]]
    coder.prepare()
    return coder


def photographs(n: int = _N) -> list[bytes]:
    """JPEG files of 300 × 300 pixels with the spectrum of photographs (1/f)."""
    from PIL import Image

    rng = np.random.default_rng(0)
    fy, fx = np.meshgrid(np.fft.fftfreq(300), np.fft.fftfreq(300), indexing="ij")
    filter_ = 1 / np.maximum(np.hypot(fy, fx), 1 / 300)
    files = []
    for _ in range(n):
        planes = np.fft.ifft2(np.fft.fft2(rng.normal(size=(3, 300, 300))) * filter_).real
        planes = 128 + 50 * planes / planes.std()
        buffer = io.BytesIO()
        Image.fromarray(np.clip(planes, 0, 255).astype(np.uint8).transpose(1, 2, 0)).save(buffer, "JPEG", quality=90)
        files.append(buffer.getvalue())
    return files


def _single_threaded(work: Callable[[], object]) -> object:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return work()


def _best(work: Callable[[], object], repeat: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of several timings: the others were disturbed by other processes."""
    times = []
    for _ in range(repeat):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)


if __name__ == "__main__":
    for row in rows():
        print(row)
