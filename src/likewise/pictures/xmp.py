"""Keywords in XMP: read, added and removed by changing only the bytes that say them.

Everything else in the text, whoever wrote it, stays as it is: prefixes, comments, order, encoding. Parsing is safe by
refusal: a document type (the way to entities, of which a few lines become gigabytes or name other files), a text above
`MAX_BYTES` and elements nested above `MAX_DEPTH` are errors.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.parsers import expat

from likewise.errors import LikewiseError

MAX_BYTES = 16 * 2**20  # a sidecar of a much edited picture has under one megabyte
MAX_DEPTH = 100
MAX_KEYWORD = 1_000  # letters
_RDF_URI = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDF, _DESCRIPTION, _ABOUT, _LI = (f"{_RDF_URI} {name}" for name in ("RDF", "Description", "about", "li"))
_CONTAINERS = tuple(f"{_RDF_URI} {name}" for name in ("Bag", "Seq", "Alt"))
_CODECS = {"utf-8": "utf-8", "us-ascii": "ascii", "ascii": "ascii", "iso-8859-1": "latin-1", "windows-1252": "cp1252"}
_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_TAG = re.compile(rb"""<([^\s/>]+)(?:\s+[^\s=]+\s*=\s*(?:"[^"]*"|'[^']*'))*\s*(/?)>""")
# Control characters, halves of surrogate pairs and two more are in no XML; a tab or newline is in no keyword.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class XmpError(LikewiseError):
    """A text that cannot be read as XMP; the message is the reason, without the name of the file."""


class Field(NamedTuple):
    """A property that lists keywords: its usual prefix, namespace and name, and the container of a new one."""

    prefix: str
    uri: str
    name: str
    container: str

    @property
    def full(self) -> str:
        return f"{self.uri} {self.name}"


# The standard keywords, and two lists of paths: animals/cat (digiKam, Immich) and animals|cat (Lightroom, darktable).
FIELDS = {
    "dc:subject": Field("dc", "http://purl.org/dc/elements/1.1/", "subject", "Bag"),
    "digiKam:TagsList": Field("digiKam", "http://www.digikam.org/ns/1.0/", "TagsList", "Seq"),
    "lr:hierarchicalSubject": Field("lr", "http://ns.adobe.com/lightroom/1.0/", "hierarchicalSubject", "Bag"),
}
_BY_FULL = {field.full: short for short, field in FIELDS.items()}
Words = Mapping[str, Iterable[str]]  # by the short name of their field

EMPTY = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="likewise">\n'
    f' <rdf:RDF xmlns:rdf="{_RDF_URI}">\n </rdf:RDF>\n</x:xmpmeta>\n<?xpacket end="w"?>\n'
).encode()


class Edit(NamedTuple):
    """At this byte of the text in UTF-8, `old` becomes `new`."""

    at: int
    old: str
    new: str


def checked_keyword(word: str) -> str:
    """A keyword as it is written: composed letters, no space around; an error for what no XMP can hold."""
    tidy = unicodedata.normalize("NFC", word).strip()
    if not tidy or len(tidy) > MAX_KEYWORD or _FORBIDDEN.search(tidy):
        raise LikewiseError(
            f"{word[:60]!r} cannot be a keyword; expected 1 to {MAX_KEYWORD:,} letters without control characters"
        )
    return tidy


# ---------------------------------------------------------------------------------------------------------------------
# Encodings


def _decoded(data: bytes) -> tuple[bytes, str]:
    """The text in UTF-8, and the codec that gives the same bytes back."""
    if len(data) > MAX_BYTES:
        raise XmpError(f"has more than {MAX_BYTES >> 20} MB")
    codec = _codec(data)
    try:
        text = data.decode(codec)
        if text.encode(codec) == data:
            return text.encode(), codec
    except UnicodeError as error:
        raise XmpError(f"is not the {codec} that it claims to be") from error
    raise XmpError(f"is unusual {codec}, which would not be written back as it is")


def _codec(data: bytes) -> str:
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise XmpError("is UTF-32, which is not supported")
    if data.startswith((b"\xff\xfe", b"<\0")):
        return "utf-16-le"
    if data.startswith((b"\xfe\xff", b"\0<")):
        return "utf-16-be"
    declared = _DECLARED.match(data.removeprefix(b"\xef\xbb\xbf")[:200])
    name = declared[1].decode().lower() if declared else "utf-8"
    if name not in _CODECS:
        raise XmpError(f"has the encoding {name}, which is not supported")
    return _CODECS[name]


# ---------------------------------------------------------------------------------------------------------------------
# Parsing


@dataclass
class _Element:
    """An element: where it starts, where its end tag starts (at its own start if it has none), and what is inside."""

    name: str
    start: int
    attributes: dict[str, str]
    stop: int = 0
    text: list[str] = field(default_factory=list)
    children: list["_Element"] = field(default_factory=list)

    def words(self) -> str:
        """All text inside, without space around."""
        return "".join([*self.text, *(child.words() for child in self.children)]).strip()


class _Reader:
    """Finds the properties that list keywords; parts are kept of these only."""

    def __init__(self, text: bytes) -> None:
        self.rdf: _Element | None = None
        self.about: str | None = None
        self.found: list[tuple[str, _Element]] = []  # the short name, and the element of the property
        self.in_attributes: list[tuple[str, _Element, str]] = []  # the same, with the element that has the attribute
        self.prefixes: dict[str, set[str]] = {}  # by namespace
        self._open: list[_Element] = []
        self._inside = 0  # the depth of the property being read
        self._parser = expat.ParserCreate("utf-8", " ")  # a declaration of another encoding does not count
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.StartNamespaceDeclHandler = self._name
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            raise XmpError(f"is not well-formed XML: {error}") from error
        if self.rdf is None:
            raise XmpError("is XML without rdf:RDF, and not XMP")

    def _refuse(self, *_: Any) -> None:
        raise XmpError("has a document type, which XMP never has")

    def _name(self, prefix: str | None, uri: str) -> None:
        self.prefixes.setdefault(uri, set()).add(prefix or "")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        element = _Element(name, self._parser.CurrentByteIndex, attributes)
        if self._inside:
            self._open[-1].children.append(element)
        elif name == _RDF and self.rdf is None:
            self.rdf = element
        elif self._is_inside(_RDF) and name == _DESCRIPTION:
            self._describe(element)
        elif self._is_inside(_RDF, _DESCRIPTION) and name in _BY_FULL:
            self.found.append((_BY_FULL[name], element))
            self._inside = len(self._open) + 1
        self._open.append(element)
        if len(self._open) > MAX_DEPTH:
            raise XmpError(f"is nested deeper than {MAX_DEPTH}")

    def _is_inside(self, *names: str) -> bool:
        return tuple(element.name for element in self._open[-len(names) :]) == names

    def _describe(self, element: _Element) -> None:
        if self.about is None:
            self.about = element.attributes.get(_ABOUT)
        named = ((_BY_FULL.get(name), value) for name, value in element.attributes.items())
        self.in_attributes += [(short, element, value) for short, value in named if short is not None]

    def _end(self, _: str) -> None:
        self._open.pop().stop = self._parser.CurrentByteIndex
        if len(self._open) < self._inside:
            self._inside = 0

    def _characters(self, text: str) -> None:
        if self._inside:
            self._open[-1].text.append(text)


class Xmp:
    """A text of XMP and the keywords in it; `added` and `removed` say how to change it, and change nothing."""

    def __init__(self, data: bytes) -> None:
        self.text, self._codec = _decoded(data)
        self._reader = _Reader(self.text)

    def words(self, short: str) -> list[str]:
        """The words of a field, in order, each once; [] if the field is not there."""
        listed = [word for name, prop in self._reader.found if name == short for word in _listed(prop)]
        listed += [value.strip() for name, _, value in self._reader.in_attributes if name == short]
        return list(dict.fromkeys(unicodedata.normalize("NFC", word) for word in listed if word))

    def has(self, short: str) -> bool:
        return any(name == short for name, *_ in (*self._reader.found, *self._reader.in_attributes))

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """The file with these edits, in its own encoding."""
        parts, place = [], 0
        for edit in sorted(edits):
            parts += [self.text[place : edit.at], edit.new.encode()]
            place = edit.at + len(edit.old.encode())
        return b"".join([*parts, self.text[place:]]).decode().encode(self._codec, "xmlcharrefreplace")

    def reverted(self, edits: Iterable[Edit]) -> bytes | None:
        """The file before these edits were made; None if it does not hold them."""
        back, shift = [], 0
        for edit in sorted(edits):
            old, new = edit.old.encode(), edit.new.encode()
            at = edit.at + shift
            if self.text[at : at + len(new)] != new:
                return None
            back.append(Edit(at, edit.new, edit.old))
            shift += len(new) - len(old)
        return self.edited(back)

    # -- adding -------------------------------------------------------------------------------------------------------

    def added(self, wanted: Words) -> list[Edit]:
        """Edits that add words to fields, which are made where they are not there."""
        edits, made = [], dict[str, list[str]]()
        for short, words in wanted.items():
            known = set(self.words(short))
            new = [word for word in dict.fromkeys(words) if word not in known]
            if not new:
                continue
            prop = next((prop for name, prop in self._reader.found if name == short), None)
            if prop is not None:
                edits.append(self._into(prop, new, FIELDS[short].container))
            else:
                edits += self._without_attribute(short)
                made[short] = [*self.words(short), *new]
        return [*edits, self._description(made)] if made else edits

    def _into(self, prop: _Element, words: list[str], kind: str) -> Edit:
        """Words behind those that a property has."""
        held = next((child for child in prop.children if child.name in _CONTAINERS), None)
        if held is None:  # text alone, which is no list
            inner = _container(kind, [*_listed(prop), *words], f' xmlns:rdf="{_RDF_URI}"')
            return self._filled(prop, inner, whole=True)
        prefix = self._tag(held)[1].decode().rpartition(":")[0]
        items = [_item(word, prefix) for word in words]
        if not held.children:
            return self._filled(held, "".join(items))
        last = held.children[-1]
        before = self.text[: last.start]
        gap = before[len(before.rstrip()) :].decode()
        return Edit(self._after(last), "", "".join(gap + item for item in items))

    def _filled(self, element: _Element, inner: str, whole: bool = False) -> Edit:
        """An element with more inside, in front of its end tag, or (`whole`) instead of what was inside."""
        tag = self._tag(element)
        if tag[2]:  # <a/> becomes <a>…</a>
            head = tag[0][:-2].rstrip().decode()
            return Edit(element.start, tag[0].decode(), f"{head}>{inner}</{tag[1].decode()}>")
        first = tag.end() if whole else element.stop
        return Edit(first, self.text[first : element.stop].decode(), inner)

    def _description(self, made: dict[str, list[str]]) -> Edit:
        """A description of the same thing, with new properties, behind all others."""
        rdf = self._reader.rdf
        assert rdf is not None
        names = {FIELDS[short].prefix: FIELDS[short].uri for short in made}
        if self._tag(rdf)[1] != b"rdf:RDF":
            names["rdf"] = _RDF_URI
        spaces = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in names.items())
        lines = [f'<rdf:Description rdf:about="{html.escape(self._reader.about or "")}"{spaces}>']
        for short, words in made.items():
            lines += [f" <{short}>", f"  {_container(FIELDS[short].container, words)}", f" </{short}>"]
        inner = "".join(f"\n  {line}" for line in [*lines, "</rdf:Description>"])
        if self._tag(rdf)[2]:
            return self._filled(rdf, f"{inner}\n")
        return Edit(len(self.text[: rdf.stop].rstrip()), "", inner)

    # -- removing -----------------------------------------------------------------------------------------------------

    def removed(self, unwanted: Words) -> list[Edit]:
        """Edits that remove words from fields; a field that has no other goes too."""
        edits = []
        for short, words in unwanted.items():
            gone = set(words)
            for prop in (prop for name, prop in self._reader.found if name == short):
                items = _items(prop)
                leaving = [item for item in items if unicodedata.normalize("NFC", item.words()) in gone]
                edits += [self._cut(item) for item in ([prop] if len(leaving) == len(items) > 0 else leaving)]
            if not set(self.words(short)) - gone:
                edits += self._without_attribute(short)
        return edits

    def _cut(self, element: _Element) -> Edit:
        """Without an element and the space in front of it."""
        first = len(self.text[: element.start].rstrip())
        return Edit(first, self.text[first : self._after(element)].decode(), "")

    def _without_attribute(self, short: str) -> Iterator[Edit]:
        """Without a property that is written as an attribute."""
        for _, element, _ in (found for found in self._reader.in_attributes if found[0] == short):
            uri, name = FIELDS[short].uri, FIELDS[short].name
            prefix = "|".join(map(re.escape, self._reader.prefixes[uri]))
            pattern = rf"""\s+(?:{prefix}):{name}\s*=\s*("[^"]*"|'[^']*')"""
            if found := re.search(pattern.encode(), self._tag(element)[0]):
                yield Edit(element.start + found.start(), found[0].decode(), "")

    def _tag(self, element: _Element) -> re.Match[bytes]:
        tag = _TAG.match(self.text, element.start)
        assert tag is not None  # the parser has found it well-formed
        return tag

    def _after(self, element: _Element) -> int:
        """Where an element has ended."""
        tag = self._tag(element)
        return tag.end() if tag[2] else self.text.index(b">", element.stop) + 1


def _items(prop: _Element) -> list[_Element]:
    """The elements that each say one word: of the containers, or the property itself if it has text alone."""
    held = [child for child in prop.children if child.name in _CONTAINERS]
    return [item for child in held for item in child.children if item.name == _LI] if held else [prop]


def _listed(prop: _Element) -> list[str]:
    return [word for word in (item.words() for item in _items(prop)) if word]


def _item(word: str, prefix: str = "rdf") -> str:
    name = f"{prefix}:li" if prefix else "li"
    return f"<{name}>{html.escape(word, quote=False)}</{name}>"


def _container(kind: str, words: Iterable[str], spaces: str = "") -> str:
    return f"<rdf:{kind}{spaces}>{''.join(map(_item, words))}</rdf:{kind}>"
