"""The answers to OWASP ASVS: each number once, and every file they name exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "security" / "asvs.md").read_text()
LINES = re.findall(r"^\| (\d+\.\d+\.\d+) \| (\S+) \| (.+) \|$", TEXT, re.MULTILINE)


def test_every_requirement_is_answered_once() -> None:
    numbers = [number for number, _, _ in LINES]
    assert len(numbers) == len(set(numbers)) == 128
    assert numbers == sorted(numbers, key=lambda number: [int(part) for part in number.split(".")])
    assert {answer for _, answer, _ in LINES} == {"yes", "part", "no", "proxy", "n/a"}


def test_the_counts_are_those_of_the_answers() -> None:
    found = Counter(answer for _, answer, _ in LINES)
    words = {"yes": "yes", "part": "partly", "proxy": "by the proxy", "no": "no", "n/a": "not applicable"}
    assert ", ".join(f"{found[answer]} {word}" for answer, word in words.items()) in TEXT


def test_the_files_exist() -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.\w+)`", TEXT):
        assert (ROOT / name).exists() or (ROOT / "src" / "likewise" / name).exists(), name
