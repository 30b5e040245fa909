"""Writes src/likewise/words/imagenet.tsv: names of ImageNet's 1,000 classes and of what they are kinds of.

    python tools/imagenet_names.py /usr/share/wordnet/data.noun     # Debian's wordnet-base, WordNet 3.0

The ids of the classes are offsets into WordNet 3.0, and are read from the file that is written again.
"""

import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "src/likewise/words/imagenet.tsv"
MOST = 150  # classes of a kind: "dog" has 118, "animal" 398; wider ones changed nothing on the stamps of Tux Paint


def read_wordnet(path: str) -> dict[str, tuple[list[str], list[str]]]:
    """Names and parents of each noun by its id, n and the offset."""
    found = {}
    for line in Path(path).read_text("utf-8").splitlines():
        if line.startswith(" "):  # the licence
            continue
        fields = line.split("|")[0].split()
        n = int(fields[3], 16)
        names = [fields[4 + 2 * i].replace("_", " ") for i in range(n)]
        pointers = fields[5 + 2 * n :]
        parents = [f"n{pointers[i + 1]}" for i in range(0, len(pointers), 4) if pointers[i] in ("@", "@i")]
        found[f"n{fields[0]}"] = names, parents
    return found


def above(id: str, nouns: dict[str, tuple[list[str], list[str]]]) -> set[str]:
    """The ids of all that a noun is a kind of."""
    parents = nouns[id][1]
    return set(parents).union(*(above(parent, nouns) for parent in parents))


def main() -> None:
    """Write the file again with the names of WordNet."""
    nouns, old = read_wordnet(sys.argv[1]), FILE.read_text("utf-8").splitlines()
    notice = [line for line in old if line.startswith("#")]
    classes = [line.split("\t")[0] for line in old if line.startswith("n")][:1000]
    kinds: dict[str, int] = {}
    for id in classes:
        for kind in above(id, nouns):
            kinds[kind] = kinds.get(kind, 0) + 1
    kept = sorted(kind for kind, n in kinds.items() if n <= MOST and kind not in classes)
    lines = ["\t".join((id, "|".join(nouns[id][0]), "|".join(nouns[id][1]))) for id in (*classes, *kept)]
    FILE.write_text("\n".join([*notice, *lines]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
