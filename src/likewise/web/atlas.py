"""The map as the page gets it: quick first, then with its neighbourhoods, and drawn again after a lesson."""

from __future__ import annotations

import json
import threading

import numpy as np

from likewise.web.jobs import Job
from likewise.web.projection import neighbour_map, quick_map
from likewise.web.session import Desk
from likewise.web.spaces import Space

__all__ = ["Atlas"]

_MOST = 60_000  # points a browser draws smoothly


class Atlas:
    """Maps are only worked out once somebody looks at one."""

    def __init__(self) -> None:
        self.job = Job("map")
        self._lock = threading.Lock()
        self._version: int | None = None
        self._method = "quick"
        self._rows = np.arange(0)
        self._places = np.zeros((0, 2), dtype=np.float32)

    def json(self, desk: Desk) -> bytes:
        """The map there is, as JSON; a better one is begun if it is old."""
        space = desk.learned
        with self._lock:
            if self._version is None:
                rng = np.random.default_rng(0)
                self._rows = np.sort(rng.choice(len(desk), min(len(desk), _MOST), replace=False))
                self._places = quick_map(space.G[self._rows])
            if self._version != space.version:
                self._draw(space)
            return self._written(desk)

    def _draw(self, space: Space) -> None:
        """Begin at the map there is, so that things stay about where they were."""
        start, rows = self._places, self._rows

        def work() -> None:
            places = neighbour_map(space.G[rows], start)
            with self._lock:
                self._places, self._method = places, "neighbours"

        if self.job.start(work):
            self._version = space.version

    def _written(self, desk: Desk) -> bytes:
        names, codes = desk.codes()
        x, y = np.rint(65535 * self._places).astype(int).T.tolist()
        facts = {
            "version": self._version or 0,
            "method": self._method,
            "x": x,
            "y": y,
            "rows": None if len(self._rows) == len(desk) else self._rows.tolist(),
            "codes": codes[self._rows].tolist(),
            "labels": names,
        }
        return json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode()
