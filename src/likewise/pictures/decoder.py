"""The process that decodes pictures: limited in memory and time, so that a hostile picture costs this process at most.

It reads requests from standard input, each a line of JSON and the bytes of a picture, and answers in the same way.
"""

import fcntl
import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from likewise.pictures.images import ImageError, encode_jpeg, load_image, load_reduced, open_image, read_file

_LARGE = 8_000_000  # pixels; larger pictures are decoded one at a time by all processes that share a lock


def main() -> None:
    """Answer requests until standard input ends."""
    inputs, outputs = sys.stdin.buffer, sys.stdout.buffer
    limits = json.loads(sys.argv[1])
    os.nice(5)  # whoever waits for something else goes first
    load_image(encode_jpeg(np.zeros((8, 8, 3), np.uint8), 8))  # loads all readers before memory is limited
    _limit_memory(limits["bytes"])
    while line := inputs.readline():
        request = json.loads(line)
        data = inputs.read(request.pop("length"))
        _limit_time(limits["seconds"])
        head, body = _answer(data, limits["lock"], **request)
        outputs.write(json.dumps({**head, "length": len(body)}).encode() + b"\n")
        outputs.write(body)
        outputs.flush()


def _answer(data: bytes, lock: int, path: str | None, max_pixels: int, **how: Any) -> tuple[dict[str, Any], Any]:
    try:
        data = data if path is None else read_file(os.fsdecode(bytes.fromhex(path)))
        if not data:
            raise ImageError("the file is empty", "empty")
        with _one_at_a_time(data, max_pixels, lock):
            return _decoded(data, max_pixels, **how)
    except ImageError as error:
        return {"error": type(error).__name__, "message": str(error), "kind": error.kind}, b""
    except MemoryError:
        return {"error": "MemoryError"}, b""


def _decoded(
    data: bytes, max_pixels: int, at_least: int | None, longest: int | None, reduced: bool
) -> tuple[dict[str, Any], Any]:
    """Pixels and the size of the picture, or a JPEG of at most `longest` pixels on its longer side."""
    if reduced:
        pixels, size = load_reduced(data, at_least or 1, max_pixels)
    else:
        pixels = load_image(data, at_least, max_pixels)
        size = (pixels.shape[1], pixels.shape[0])
    if longest is not None:
        return {"size": size}, encode_jpeg(pixels, longest)
    return {"size": size, "shape": pixels.shape}, np.ascontiguousarray(pixels).data.cast("B")


@contextmanager
def _one_at_a_time(data: bytes, max_pixels: int, lock: int) -> Iterator[None]:
    """Wait, with a large picture, until no other process decodes one."""
    if not _is_large(data, max_pixels):
        yield
        return
    fcntl.lockf(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN)


def _is_large(data: bytes, max_pixels: int) -> bool:
    try:
        with open_image(data, max_pixels) as image:
            return bool(image.width * image.height > _LARGE)
    except MemoryError:
        raise
    except Exception:  # decoding will say what is wrong with it
        return False


def _limit_memory(n_bytes: int) -> None:
    """Allow so many bytes beyond those in use."""
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, used + n_bytes))


def _limit_time(seconds: int) -> None:
    """Be ended by the system after so many seconds of computing from now on."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent.ru_utime + spent.ru_stime) + seconds + 1, hard))


if __name__ == "__main__":
    main()
