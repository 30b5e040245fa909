"""Teaching on the page: every mark is kept at once, lessons are learned in the background, every step can be undone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from likewise.web.desk import Desk
from likewise.web.jobs import Job

__all__ = ["Classroom"]


class Classroom:
    """The teacher of an index and what was done last."""

    def __init__(self, desk: Desk, folder: Path | None) -> None:
        self.desk = desk
        self.job = Job("lesson")
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return 0

    def mark(self, query: list[int | str], item: int, right: bool) -> None: ...

    def label(self, item: int, label: str) -> None: ...

    def learn(self) -> bool:
        return False

    def undo(self) -> str | None:
        return None

    def entries(self) -> list[dict[str, Any]]:
        return []

    def csv(self) -> str:
        return ""

    def describe(self) -> dict[str, Any]:
        return {
            "feedback": {"total": 0, "pending": 0},
            "undo": None,
            "learning": self.job.describe(),
            "lesson": None,
            "previous": self.desk.previous is not None,
        }

    def close(self) -> None:
        self.job.close()
