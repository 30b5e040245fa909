"""Folder names that say what a picture shows, and those that say when or where it was stored."""

from __future__ import annotations

import pytest

from likewise.pictures.folder_names import names_a_class


@pytest.mark.parametrize(
    "name",
    [
        "2023", "2023-05", "2023_05_01", "20230501", "2019 Summer", "Summer 2019", "01 January", "05-May", "Mai 2023",
        "août", "01.05.2023", "DCIM", "100APPLE", "101_PANA", "102CANON", "Camera", "camera roll", "Kamera", "phone",
        "iPhone", "iPhone 12 Pro", "Téléphone", "Telefon", "WhatsApp Images", "WhatsApp", "Screenshots", "Downloads",
        "backup", "Backup old disk", "import", "misc", "unsorted", "New folder", "New Folder (3)", "Neuer Ordner",
        "Untitled", "untitled 2", "Fotos", "Bilder", "IMAGES", "train",
    ],
)  # fmt: skip
def test_dates_devices_and_leftovers_are_no_classes(name: str) -> None:
    assert not names_a_class(name)


@pytest.mark.parametrize(
    "name",
    [
        "cat", "accordion", "Faces_easy", "BACKGROUND_Google", "car_side", "0", "7", "airplanes", "001.ak47", "may fly",
        "camera lens", "cellphone", "n01440764", "Käfer", "summer", "marsupials", "phoenix", "Audi A4 2012", "mayfly",
    ],
)  # fmt: skip
def test_what_a_picture_may_show_is_a_class(name: str) -> None:
    assert names_a_class(name)


def test_a_number_in_a_folder_named_by_a_date_is_a_month_or_a_day() -> None:
    assert not names_a_class("05", around="2023")
    assert names_a_class("05", around="digits")
