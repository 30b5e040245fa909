"""Which folder names say what a picture shows, and which only when, by what or where it was stored."""

import re
import unicodedata

# In English, German, French, Spanish, Italian, Portuguese and Dutch; without accents, since names are compared so.
_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec"
    "|januar|februar|marz|maerz|mai|juni|juli|oktober|dezember|janner"
    "|janvier|fevrier|mars|avril|juin|juillet|aout|septembre|octobre|novembre|decembre"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    "|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    "|janeiro|fevereiro|marco|maio|junho|julho|setembro|outubro|novembro|dezembro"
    "|januari|februari|maart|mei|augustus"
)
_SEASONS = "spring|summer|autumn|fall|winter|fruhling|fruehling|sommer|herbst|printemps|ete|automne|hiver|verano|estate"

_STORAGE = {
    "dcim", "camera", "cameras", "camera roll", "camera uploads", "kamera", "camara", "fotocamera", "webcam",
    "phone", "mobile", "smartphone", "cell", "handy", "telefon", "telephone", "telefono", "telefone", "telefoon",
    "iphone", "ipad", "android", "samsung", "galaxy", "huawei", "xiaomi", "gopro", "drone", "dji",
    "whatsapp", "whatsapp images", "telegram", "telegram images", "signal", "instagram", "facebook", "snapchat",
    "messenger", "viber", "twitter", "screenshot", "screenshots", "screen shots", "bildschirmfoto", "bildschirmfotos",
    "captures", "captures d ecran", "capturas", "capturas de pantalla", "schermafbeeldingen",
    "download", "downloads", "telechargements", "descargas", "heruntergeladen",
    "backup", "backups", "sicherung", "sauvegarde", "copia", "archive", "archiv", "old", "alt",
    "import", "imports", "imported", "export", "exports", "inbox", "temp", "tmp", "trash", "upload", "uploads",
    "misc", "miscellaneous", "various", "verschiedenes", "sonstiges", "divers", "varios", "varie", "diversen",
    "unsorted", "unsortiert", "to sort", "a trier", "new", "neu",
    "new folder", "neuer ordner", "nouveau dossier", "nueva carpeta", "nuova cartella", "nova pasta", "nieuwe map",
    "untitled", "untitled folder", "unbenannt", "sans titre", "sin titulo", "senza titolo",
    "photo", "photos", "picture", "pictures", "my pictures", "image", "images", "bild", "bilder", "foto", "fotos",
    "immagini", "imagenes", "imagens", "afbeeldingen", "saved pictures", "google photos", "icloud", "dropbox",
    "onedrive", "album", "albums", "alben", "scan", "scans", "sd card", "sdcard", "card", "usb", "disk", "folder",
    "favorites", "favourites", "favoriten", "favoris", "selects", "picks", "edited", "edits", "originals", "raw",
    "raws", "jpg", "jpeg", "png", "heic", "finals", "final", "roll", "film",
    "train", "training", "test", "val", "valid", "validation", "dev", "holdout",
}  # fmt: skip

_DATE = re.compile(
    r"(19|20)\d\d($|[ \d].*)"  # 2023, 2023 05, 20230501, 2019 Summer
    rf"|(\d{{1,2}} )?({_MONTHS})( \d{{1,2}})?( (19|20)?\d\d)?"  # 01 January, May, Mai 23
    rf"|({_SEASONS}) (19|20)?\d\d"  # Summer 2019; summer alone may be what a picture shows
    r"|\d{1,2} \d{1,2} (19|20)?\d\d"  # 01 05 2023
)
# 100APPLE, 101_PANA, 100CANON: three digits and five signs, as cameras write them
_CAMERA = re.compile(r"\d{3}[a-z0-9_]{5}")


def names_a_class(name: str, around: str = "") -> bool:
    """Whether a folder's name may say what its pictures show; `around` is the name of the folder it lies in."""
    plain = _plain(name)
    if _CAMERA.fullmatch(name.casefold()) or _DATE.fullmatch(plain):
        return False
    if re.fullmatch(r"\d{1,2}", plain) and _DATE.fullmatch(_plain(around)):
        return False  # the months of a year; digits alone may be classes
    return not _is_storage(plain)


def _is_storage(plain: str) -> bool:
    """Whether the name is in the list, as it is or with a number: iPhone 12, New folder (3), backup 2023."""
    return re.sub(r"[ \d()]+$", "", plain) in _STORAGE or plain.split(" ")[0] in ("iphone", "whatsapp", "backup")


def _plain(name: str) -> str:
    """Lower case without accents, with spaces for separators."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[\s_\-.,'’]+", " ", letters).strip()
