"""Keywords in XMP: reading, adding and removing them, with all other properties left as they are.

A document type is refused before parsing, so that there are no entities to expand and no files to fetch; libxml2 limits
the depth of nesting, and `MAX_BYTES` the size.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from likewise.errors import LikewiseError, optional

MAX_BYTES = 16 * 2**20  # a sidecar of a much edited picture has under one megabyte
MAX_KEYWORD = 1_000  # characters
_RDF_URI = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDF, _DESCRIPTION, _ABOUT, _ITEM = (f"{{{_RDF_URI}}}{name}" for name in ("RDF", "Description", "about", "li"))
_CONTAINERS = tuple(f"{{{_RDF_URI}}}{name}" for name in ("Bag", "Seq", "Alt"))
_CODECS = {"utf-8": "utf-8", "us-ascii": "ascii", "ascii": "ascii", "iso-8859-1": "latin-1", "windows-1252": "cp1252"}
_DECLARATION = re.compile(r"""<\?xml\s[^>]*?\?>""")
_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
# Not allowed in XML: control characters, surrogates and two more. A keyword has no tab or newline either.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class XmpError(LikewiseError):
    """Data that cannot be read as XMP; the message is the reason, without the name of the file."""


class Field(NamedTuple):
    """A property that lists keywords: its usual prefix, its namespace and name, and the container of a new list."""

    prefix: str
    uri: str
    name: str
    container: str

    @property
    def tag(self) -> str:
        return f"{{{self.uri}}}{self.name}"


# The standard keywords, and two lists of paths: animals/cat (digiKam, Immich) and animals|cat (Lightroom, darktable).
FIELDS = {
    "dc:subject": Field("dc", "http://purl.org/dc/elements/1.1/", "subject", "Bag"),
    "digiKam:TagsList": Field("digiKam", "http://www.digikam.org/ns/1.0/", "TagsList", "Seq"),
    "lr:hierarchicalSubject": Field("lr", "http://ns.adobe.com/lightroom/1.0/", "hierarchicalSubject", "Bag"),
}
Words = Mapping[str, Iterable[str]]  # keyed by the short name of the field, such as "dc:subject"

EMPTY = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="likewise">\n'
    f' <rdf:RDF xmlns:rdf="{_RDF_URI}">\n </rdf:RDF>\n</x:xmpmeta>\n<?xpacket end="w"?>\n'
).encode()


def checked_keyword(word: str) -> str:
    """A keyword in composed characters and without surrounding space; an error if XMP cannot hold it."""
    tidy = unicodedata.normalize("NFC", word).strip()
    if not tidy or len(tidy) > MAX_KEYWORD or _FORBIDDEN.search(tidy):
        raise LikewiseError(
            f"{word[:60]!r} cannot be a keyword; expected 1 to {MAX_KEYWORD:,} letters without control characters"
        )
    return tidy


class Xmp:
    """An XMP document and its keywords. `add` and `remove` change it in memory; `to_bytes` has its encoding."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_BYTES:
            raise XmpError(f"has more than {MAX_BYTES >> 20} MB")
        self._codec = _codec(data)
        try:
            text = data.decode(self._codec)
        except UnicodeError as error:
            raise XmpError(f"is not the {self._codec} that it claims to be") from error
        declaration = _DECLARATION.match(text.removeprefix("\ufeff"))
        # What precedes the root is not part of the tree; it is written back unchanged.
        self._head = "\ufeff" * text.startswith("\ufeff") + (f"{declaration[0]}\n" if declaration else "")
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._root = _parsed(text)
        rdf = next(self._root.iter(_RDF), None)
        if rdf is None:
            raise XmpError("is XML without rdf:RDF, and not XMP")
        self._rdf = rdf

    def words(self, short: str) -> list[str]:
        """The distinct words of a field, in order; [] if the field is missing."""
        tag = FIELDS[short].tag
        listed = [word for prop in self._properties(tag) for word in _listed(prop)]
        listed += [element.get(tag).strip() for element in self._with_attribute(tag)]
        return list(dict.fromkeys(unicodedata.normalize("NFC", word) for word in listed if word))

    def has(self, short: str) -> bool:
        """Whether the field exists, even if it is empty."""
        tag = FIELDS[short].tag
        return any(True for _ in self._properties(tag)) or any(True for _ in self._with_attribute(tag))

    def add(self, wanted: Words) -> list[str]:
        """Add words to fields, which are created if missing; the fields that have changed."""
        changed = []
        for short, words in wanted.items():
            present = self.words(short)
            new = [word for word in dict.fromkeys(words) if word not in present]
            if not new:
                continue
            changed.append(short)
            prop = next(self._properties(FIELDS[short].tag), None)
            if prop is None:
                for element in self._with_attribute(FIELDS[short].tag):
                    del element.attrib[FIELDS[short].tag]
                self._create(FIELDS[short], [*present, *new])
            else:
                _extend(prop, new, FIELDS[short].container)
        return changed

    def remove(self, unwanted: Words) -> bool:
        """Remove words from fields, and a field if no word is left; whether anything has changed."""
        changed = False
        for short, words in unwanted.items():
            gone, tag = set(words), FIELDS[short].tag
            is_empty = not set(self.words(short)) - gone
            for prop in list(self._properties(tag)):
                items = _items(prop)
                leaving = [item for item in items if unicodedata.normalize("NFC", _text(item)) in gone]
                for element in [prop] if len(leaving) == len(items) > 0 else leaving:
                    _cut(element)
                    changed = True
            for element in list(self._with_attribute(tag)) if is_empty else []:
                del element.attrib[tag]
                changed = True
        return changed

    def to_bytes(self) -> bytes:
        """The document in its own encoding; characters that this lacks become references."""
        etree = _etree()
        nodes = [*reversed(list(self._root.itersiblings(preceding=True))), self._root, *self._root.itersiblings()]
        parts = (etree.tostring(node, encoding="unicode", with_tail=False) for node in nodes)
        text = "\n".join([*parts, ""])
        return (self._head + text).replace("\n", self._newline).encode(self._codec, "xmlcharrefreplace")

    def _properties(self, tag: str) -> Iterator[Any]:
        return (prop for description in self._rdf.iterfind(_DESCRIPTION) for prop in description.iterfind(tag))

    def _with_attribute(self, tag: str) -> Iterator[Any]:
        """Descriptions that have the property as an attribute."""
        return (description for description in self._rdf.iterfind(_DESCRIPTION) if tag in description.attrib)

    def _create(self, field: Field, words: list[str]) -> None:
        """A new property, in the first description or a new one."""
        etree = _etree()
        description = self._rdf.find(_DESCRIPTION)
        if description is None:
            description = etree.Element(_DESCRIPTION, {_ABOUT: ""}, nsmap={"rdf": _RDF_URI})
            _append(self._rdf, description)
        prop = etree.Element(field.tag, nsmap={field.prefix: field.uri, "rdf": _RDF_URI})
        _append(description, prop)
        _extend(prop, words, field.container)


def _etree() -> Any:
    return optional("lxml.etree", "reading and writing keywords in XMP", "images")


def _codec(data: bytes) -> str:
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise XmpError("is UTF-32, which is not supported")
    if data.startswith((b"\xff\xfe", b"<\0")):
        return "utf-16-le"
    if data.startswith((b"\xfe\xff", b"\0<")):
        return "utf-16-be"
    declared = _ENCODING.match(data.removeprefix(b"\xef\xbb\xbf")[:200])
    name = declared[1].decode().lower() if declared else "utf-8"
    if name not in _CODECS:
        raise XmpError(f"has the encoding {name}, which is not supported")
    return _CODECS[name]


def _parsed(text: str) -> Any:
    """The root element."""
    etree = _etree()
    if "<!DOCTYPE" in text:
        raise XmpError("has a document type, which XMP never has")
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False
    )
    try:
        return etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise XmpError(f"is not well-formed XML: {error.msg}") from error


def _items(prop: Any) -> list[Any]:
    """The elements that hold one word each: those in the containers, or the property itself if it is plain text."""
    containers = [child for child in prop if child.tag in _CONTAINERS]
    return [item for container in containers for item in container.iterfind(_ITEM)] if containers else [prop]


def _listed(prop: Any) -> list[str]:
    return [word for word in map(_text, _items(prop)) if word]


def _text(element: Any) -> str:
    """All text inside, without surrounding space or comments."""
    return str(element.xpath("string()")).strip()


def _extend(prop: Any, words: list[str], kind: str) -> None:
    """Append words to those that a property has."""
    etree = _etree()
    container = next((child for child in prop if child.tag in _CONTAINERS), None)
    if container is None:  # plain text or nothing becomes a list
        words = [*_listed(prop), *words]
        del prop[:]
        prop.text = None
        container = etree.SubElement(prop, f"{{{_RDF_URI}}}{kind}", nsmap={"rdf": _RDF_URI})
    for word in words:
        item = etree.Element(_ITEM, nsmap={"rdf": _RDF_URI})
        item.text = word
        _append(container, item)


def _append(parent: Any, child: Any) -> None:
    """Append an element, indented as the children before it."""
    if len(parent):
        child.tail, parent[-1].tail = parent[-1].tail, parent.text
    elif parent.text:
        child.tail, parent.text = parent.text, f"{parent.text} "
    parent.append(child)


def _cut(element: Any) -> None:
    """Remove an element with the space before it."""
    parent, previous = element.getparent(), element.getprevious()
    if element.getnext() is None and previous is not None:
        previous.tail = element.tail
    elif element.getnext() is None:
        parent.text = element.tail
    parent.remove(element)
