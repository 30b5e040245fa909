"""Every kind of file that is read: a sound one, how it is damaged and sealed again, and its reader.

`python -m tests.hostile.kinds N SEED KIND…` reads N damaged files of each kind (`make fuzz`).
"""

from __future__ import annotations

import numpy as np

from tests.hostile import damage as by
from tests.hostile import sound
from tests.hostile.mutations import damaged
from tests.hostile.runner import Kind, main

KINDS = {
    kind.name: kind
    for kind in (
        Kind("model", sound.write_models, by.one(by.resealed), sound.read_model),
        Kind("model, every class", sound.write_every_model, by.one(by.resealed), sound.read_every_model),
        Kind("index", sound.write_index, by.index_part, sound.read_index),
        Kind("index, hnsw", lambda folder: sound.write_index(folder, "hnsw", 0), by.index_part, sound.read_index),
        Kind("index, ivf", lambda folder: sound.write_index(folder, "ivf", 0), by.index_part, sound.read_index),
        Kind("index, ivfpq", lambda folder: sound.write_index(folder, "ivfpq", 0), by.index_part, sound.read_index),
        Kind("feature store", sound.write_store, by.store_part, sound.read_store),
        Kind("npz", sound.write_npz, by.one(by.archive), sound.read_tables),
        Kind("npy", lambda folder: np.save(folder / "t.npy", sound.X), by.one(by.npy), sound.read_tables),
        Kind("csv", sound.write_text("t.csv"), by.one(by.text), sound.read_tables),
        Kind("tsv", sound.write_text("t.tsv"), by.one(by.text), sound.read_tables),
        Kind("parquet", sound.write_parquet, by.one(damaged), sound.read_tables),
        Kind("svmlight", sound.write_svmlight, by.one(by.text), sound.read_tables),
        Kind("relevance", sound.write_clicks, by.one(by.text), sound.read_clicks),
        Kind("images", sound.write_images, by.one(damaged), sound.read_images),
        Kind("xmp", sound.write_sidecars, by.one(damaged), sound.read_sidecars),
        Kind("undo list", sound.write_undo_list, by.only("undo.sqlite", by.journal_records), sound.read_undo_list),
        Kind("feedback", sound.write_marks, by.only("marks.sqlite", by.journal_records), sound.read_taught),
        Kind("lesson", sound.write_lesson, by.only(".likewise", by.resealed), sound.read_taught),
        Kind("extraction", sound.write_extraction, by.work_part, sound.read_extraction),
        Kind("paper cells", sound.write_cells, by.only("cells.sqlite", damaged), sound.read_cells),
        Kind("checkpoint", sound.write_checkpoint, by.one(by.resealed), sound.read_checkpoint),
        Kind("extractor", sound.write_extractors, by.one(by.resealed), sound.read_extractors),
    )
}

if __name__ == "__main__":
    main(KINDS)
