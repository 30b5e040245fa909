"""What every store does, each against the real thing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.search.stores.conftest import IDS, LAYOUT, NAMES, WIDTH, N

from likewise.errors import LikewiseError
from likewise.search.stores import Layout, Rows, Store, open_store

Opened = Callable[[], Store]


@pytest.fixture
def store(opened: Opened, rows: Rows) -> Store:
    """A table of its own with all rows."""
    built = opened()
    built.create(LAYOUT)
    built.upsert(rows.ids, rows.vectors, rows.metadata, tags=["one"] * len(rows.ids))
    return built


def by_id(rows: Rows) -> dict[object, tuple[object, ...]]:
    values = zip(rows.ids, map(tuple, rows.vectors.tolist()), zip(*rows.metadata.values(), strict=True), strict=True)
    return {name: (vector, rest) for name, vector, rest in values}


def joined(batches: list[Rows]) -> Rows:
    names = batches[0].metadata
    return Rows(
        [name for batch in batches for name in batch.ids],
        np.concatenate([batch.vectors for batch in batches]),
        {name: [value for batch in batches for value in batch.metadata[name]] for name in names},
    )


def ordered(rows: Rows) -> Rows:
    return Rows(rows.ids, rows.vectors, {name: rows.metadata[name] for name in LAYOUT.metadata})


def test_a_new_place_has_no_table(opened: Opened) -> None:
    with pytest.raises(LikewiseError, match="there is no table"):
        opened().existing_layout()


def test_rows_are_found_by_inner_product_not_by_cosine(filled: Store, rows: Rows) -> None:
    Q = np.random.default_rng(1).normal(size=(8, WIDTH)).astype(np.float32) * 3
    S = Q.astype(np.float64) @ rows.vectors.astype(np.float64).T
    best = np.argsort(-S, axis=1)[:, :10]
    ids, scores = filled.search(Q, 10)
    assert ids.tolist() == [[IDS[row] for row in result] for result in best]
    np.testing.assert_allclose(scores, np.take_along_axis(S, best, axis=1), rtol=1e-4, atol=1e-4)
    cosines = S / np.linalg.norm(rows.vectors, axis=1)
    assert (np.argsort(-cosines, axis=1)[:, :10] != best).any()


def test_all_rows_come_back_as_they_were(filled: Store, rows: Rows) -> None:
    result = list(filled.scan(batch=16))
    assert max(map(len, result)) <= 16
    assert by_id(ordered(joined(result))) == by_id(rows)
    assert by_id(ordered(filled.fetch(NAMES[:5]))) == {name: by_id(rows)[name] for name in NAMES[:5]}
    assert len(filled.fetch(["no such"])) == 0


def test_the_layout_is_read_from_the_table(filled: Store) -> None:
    assert filled.layout() == LAYOUT


def test_writing_twice_changes_nothing_and_other_values_replace(store: Store, rows: Rows) -> None:
    store.upsert(rows.ids, rows.vectors, rows.metadata, tags=["one"] * len(rows.ids))
    assert store.count() == len(store) == N
    changed = {name: column[:3] for name, column in rows.metadata.items()} | {"price": [70, 71, 72]}
    store.upsert(rows.ids[:3], -rows.vectors[:3], changed, tags=["two"] * 3)
    assert store.count() == N
    result = store.fetch(rows.ids[:3])
    assert dict(zip(result.ids, result.metadata["price"], strict=True)) == dict(zip(IDS, [70, 71, 72], strict=False))
    for name, vector in zip(result.ids, result.vectors, strict=True):
        np.testing.assert_array_equal(vector, -rows.vectors[IDS.index(name)])


def test_rows_that_were_added_by_hand_have_no_tag_and_rows_are_removed_by_their_ids(store: Store, rows: Rows) -> None:
    store.upsert(["by hand"], rows.vectors[:1], {name: [None] for name in LAYOUT.metadata})
    assert store.tags() == dict.fromkeys(IDS, "one")
    store.remove([*IDS[9:], "no such"])
    assert store.tags() == dict.fromkeys(IDS[:9], "one")
    assert set(joined(list(store.scan())).ids) == {*IDS[:9], "by hand"}


def test_another_table_is_swapped_in_and_back_and_the_one_before_stays_until_asked(store: Store, rows: Rows) -> None:
    widths = []
    for width, model in ((WIDTH + 1, "b"), (WIDTH + 2, "c")):
        layout = Layout(width, "text", card={"id": model})
        other = store.staged(layout)
        other.upsert(["new"], np.ones((1, width)))
        assert other.tags() == {}
        assert store.staged(layout).count() == 1  # what was begun goes on
        assert store.layout() != layout
        store.swap(other)
        widths.append(store.search(np.ones((1, width)))[0].tolist())
        assert store.existing_layout().card == {"id": model}
    assert widths == [[["new"]], [["new"]]]
    store.rollback()
    assert store.existing_layout() == Layout(WIDTH + 1, "text")
    store.rollback()
    assert store.existing_layout() == Layout(WIDTH + 2, "text")
    assert (store.drop_previous(), store.drop_previous()) == (True, False)
    with pytest.raises(LikewiseError, match=f"there is no table that '{store.table}' has replaced: nothing to go back"):
        store.rollback()


def test_a_table_of_another_model_that_was_begun_is_dropped(store: Store) -> None:
    store.staged(Layout(WIDTH, "text", card={"id": "b"})).upsert(["new"], np.ones((1, WIDTH)))
    assert store.staged(Layout(WIDTH + 1, "text", card={"id": "c"})).count() == 0


def test_what_was_written_is_there_for_the_next_who_opens_it(store: Store, opened: Opened, rows: Rows) -> None:
    again = opened()
    assert again.count() == N
    again.create(LAYOUT)
    assert again.search(rows.vectors[:1], 1)[0].shape == (1, 1)


def test_integers_are_ids_too(opened: Opened, rows: Rows) -> None:
    store = opened()
    store.create(Layout(WIDTH, "int"))
    ids = np.arange(N) * 1_000_003 - 5  # one is negative, some are beyond 32 bits with a few zeros more
    store.upsert(ids, rows.vectors)
    result, _ = store.search(rows.vectors, N)
    assert result.dtype.kind == "i"
    assert (np.sort(result, axis=1) == ids).all()
    assert sorted(joined(list(store.scan())).ids) == ids.tolist()
    assert store.layout() == Layout(WIDTH, "int")


def test_more_rows_than_a_batch_are_written(opened: Opened, monkeypatch: pytest.MonkeyPatch, rows: Rows) -> None:
    store = opened()
    monkeypatch.setattr(type(store), "batch", 7)
    store.create(LAYOUT)
    store.upsert(rows.ids, rows.vectors, rows.metadata)
    assert store.count() == N


def test_more_results_than_rows_are_all_rows(filled: Store, rows: Rows) -> None:
    ids, scores = filled.search(rows.vectors[0], 1000)
    assert ids.shape == scores.shape == (1, N)


def test_an_approximate_index_finds_nearly_the_same(store: Store, rows: Rows) -> None:
    exact, _ = store.search(rows.vectors[:20], 5)
    store.build_index()
    result, scores = store.search(rows.vectors[:20], 5)
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(exact, result, strict=True)]) > 0.7
    assert (np.diff(scores, axis=1) <= 1e-5).all()


def test_another_width_and_other_ids_are_refused(filled: Store) -> None:
    with pytest.raises(LikewiseError, match="holds vectors of width 5; the rows have 6"):
        filled.create(Layout(6, "text"))
    with pytest.raises(LikewiseError, match=r"the ids of the table .* are words; the rows have integers"):
        filled.create(Layout(WIDTH, "int"))


@pytest.mark.parametrize(
    ("ids", "vectors", "metadata", "message"),
    [
        (["a"], np.zeros((2, WIDTH)), {}, r"vectors has shape \(2, 5\); expected one row for each of 1 ids"),
        (["a"], np.full((1, WIDTH), np.nan), {}, "vectors has NaN or infinity"),
        (["a"], np.zeros((1, WIDTH)), {"label": []}, "metadata has 0 values of 'label'; expected 1, one per id"),
        (["a\0b"], np.zeros((1, WIDTH)), {}, r"'a\\x00b' contains a NUL or an unpaired surrogate"),
        (
            ["a\udc80"],
            np.zeros((1, WIDTH)),
            {},
            r"contains a NUL or an unpaired surrogate, which databases do not hold",
        ),
    ],
)
def test_rows_that_cannot_be_written_are_said(
    filled: Store, ids: list[str], vectors: np.ndarray, metadata: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(LikewiseError, match=message):
        filled.upsert(ids, vectors, metadata)
    assert filled.count() == N


def test_no_results_are_refused(filled: Store) -> None:
    with pytest.raises(LikewiseError, match="k=0; expected a whole number of at least 1"):
        filled.search(np.zeros((1, WIDTH)), 0)


def test_a_table_whose_name_is_sql_harms_no_other(address: str, store: Store, rows: Rows) -> None:
    store.close()
    evil = f'x"; DROP TABLE {store.table}; --'
    with open_store(address, evil) as other:
        if address.startswith(("lancedb", "qdrant")):  # which take letters, digits and a few signs
            with pytest.raises(LikewiseError, match="name"):
                other.create(Layout(WIDTH, "text"))
        else:
            other.create(Layout(WIDTH, "text"))
            other.upsert(["a"], rows.vectors[:1])
            assert other.count() == 1
    with open_store(address, store.table) as again:
        assert again.count() == N
