"""What a client is told of an error: the sentence, without where on this machine things are."""

from pathlib import Path

from likewise.errors import LikewiseError


class RefusedError(LikewiseError):
    """Something that only the person at this machine may do."""


def public_text(text: str, folder: Path | None) -> str:
    """A sentence with the index named as its folder is, not by its place on this machine."""
    if folder is not None:
        for parent in {folder.absolute().parent, folder.resolve().parent} - {Path("/")}:
            text = text.replace(f"{parent}/", "")
    return text.replace(f"{Path.home()}/", "~/")
