"""XMP: keywords come and go, and everything else stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from likewise.errors import LikewiseError
from likewise.pictures.xmp import EMPTY, MAX_BYTES, MAX_KEYWORD, Xmp, XmpError, checked_keyword

RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
DC = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
# As Lightroom writes it: attributes, a comment, odd spaces, a namespace of somebody else, DOS line ends.
FOREIGN = (
    "<?xpacket begin='\ufeff' id='W5M0MpCehiHzreSzNTczkc9d'?>\r\n"
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><!-- kept --><rdf:RDF ' + RDF + ">\r\n"
    ' <rdf:Description rdf:about="uuid:1" ' + DC + ' xmlns:own="urn:own" own:subject="not ours" own:note = "a > b">\r\n'
    "  <dc:subject><rdf:Bag>\r\n    <rdf:li>beach &amp; sea</rdf:li>\r\n  </rdf:Bag></dc:subject>\r\n"
    '  <own:x rdf:parseType="Resource"><dc:subject>inner</dc:subject></own:x><![CDATA[ ]]>\r\n'
    " </rdf:Description>\r\n</rdf:RDF></x:xmpmeta>\r\n<?xpacket end='w'?>"
).encode()


def described(inner: str, attributes: str = "") -> bytes:
    return (
        f'<rdf:RDF {RDF} {DC}><rdf:Description rdf:about="" {attributes}>{inner}</rdf:Description></rdf:RDF>'.encode()
    )


def canonical(data: bytes) -> str:
    """The document without differences in quotes and declarations of namespaces."""
    return etree.tostring(etree.fromstring(data), method="c14n2").decode()


def with_word(data: bytes, *words: str, field: str = "dc:subject") -> bytes:
    before, xmp = Xmp(data).words(field), Xmp(data)
    assert xmp.add({field: words}) == [field] * bool(set(words) - set(before))
    after = xmp.to_bytes()
    assert Xmp(after).words(field) == [*before, *(word for word in words if word not in before)]
    return after


def without(data: bytes, *words: str, field: str = "dc:subject") -> bytes:
    xmp = Xmp(data)
    assert xmp.remove({field: words})
    return xmp.to_bytes()


def test_what_is_not_changed_is_written_as_it_was() -> None:
    after = Xmp(FOREIGN).to_bytes()
    assert canonical(after) == canonical(FOREIGN)
    assert after.startswith("<?xpacket begin='\ufeff' id='W5M0MpCehiHzreSzNTczkc9d'?>\r\n<x:xmpmeta".encode())
    assert after.endswith(b"</x:xmpmeta>\r\n<?xpacket end='w'?>\r\n")
    assert b"<!-- kept -->" in after
    assert Xmp(EMPTY).to_bytes() == EMPTY


def test_a_keyword_is_inserted_behind_the_others_and_nothing_else_changes() -> None:
    after = with_word(FOREIGN, "cat")
    assert after.replace(b"\r\n    <rdf:li>cat</rdf:li>", b"") == Xmp(FOREIGN).to_bytes()
    assert Xmp(after).words("dc:subject") == ["beach & sea", "cat"]
    assert without(after, "cat") == Xmp(FOREIGN).to_bytes()
    assert Xmp(without(after, "beach & sea")).words("dc:subject") == ["cat"]


def test_a_field_that_is_not_there_comes_in_a_description_of_the_same_thing() -> None:
    after = with_word(FOREIGN, "animals/cat", field="digiKam:TagsList")
    assert after.count(b"<rdf:Description") == 1
    assert b"animals/cat" in after[after.index(b'rdf:about="uuid:1"') :]
    assert canonical(without(after, "animals/cat", field="digiKam:TagsList")) == canonical(FOREIGN)
    assert with_word(EMPTY, "cat").count(b'<rdf:Description rdf:about=""') == 1


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("<dc:subject><rdf:Bag/></dc:subject>", []),
        ("<dc:subject><rdf:Bag ></rdf:Bag></dc:subject>", []),
        ("<dc:subject><rdf:Seq><rdf:li>a</rdf:li></rdf:Seq></dc:subject>", ["a"]),
        ("<dc:subject><rdf:Bag><rdf:li xml:lang='en'><![CDATA[<]]></rdf:li></rdf:Bag></dc:subject>", ["<"]),
        ("<dc:subject><rdf:Bag><rdf:li>a<!-- b --></rdf:li></rdf:Bag></dc:subject>", ["a"]),
        ("<dc:subject><rdf:Bag><rdf:li/></rdf:Bag></dc:subject>", []),
        ("<dc:subject>a</dc:subject>", ["a"]),
        ("<dc:subject/>", []),
        ("", []),
    ],
)
def test_every_way_to_write_the_list_is_read_and_continued(inner: str, words: list[str]) -> None:
    data = described(inner)
    assert Xmp(data).words("dc:subject") == words
    with_word(data, "cat", "dog")


def test_the_attribute_form_is_read_and_becomes_a_list() -> None:
    data = described("<rdf:x/>", 'xmlns:o="urn:o" o:subject="other" dc:subject = "a &quot;b&quot;"')
    assert Xmp(data).words("dc:subject") == ['a "b"']
    after = with_word(data, "cat")
    assert b'o:subject="other"' in after
    assert b"dc:subject=" not in after


def test_other_prefixes_for_rdf_are_followed() -> None:
    data = (
        b'<RDF xmlns="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:d="http://purl.org/dc/elements/1.1/">'
        b"<Description><d:subject><Bag><li>a</li></Bag></d:subject></Description></RDF>"
    )
    assert b"<li>cat</li></Bag>" in with_word(data, "cat")
    with_word(data, "cat", field="digiKam:TagsList")
    with_word(f"<rdf:RDF {RDF}/>".encode(), "cat")


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_the_encoding_is_kept(codec: str) -> None:
    data = described("<dc:subject>Ünï</dc:subject>").decode().encode(codec)
    after = with_word(data, "Katze für 猫")
    assert Xmp(after).words("dc:subject") == ["Ünï", "Katze für 猫"]
    assert after[:4] == data[:4]


def test_a_letter_that_the_encoding_lacks_becomes_a_reference() -> None:
    head = b'<?xml version="1.0" encoding="ISO-8859-1"?>'
    data = head + described("<dc:subject>Ünï</dc:subject>").decode().encode("latin-1")
    after = with_word(data, "猫")
    assert after.startswith(head)
    assert b"\xdcn\xef" in after
    assert b"&#29483;" in after


def test_removing_takes_the_word_alone_and_a_field_without_words() -> None:
    xmp = Xmp(with_word(with_word(FOREIGN, "cat"), "cat", field="lr:hierarchicalSubject"))
    xmp.remove({"dc:subject": ["cat"], "lr:hierarchicalSubject": ["cat"]})
    after = Xmp(xmp.to_bytes())
    assert after.words("dc:subject") == ["beach & sea"]
    assert not after.has("lr:hierarchicalSubject")
    assert b"own:note" in after.to_bytes()
    assert not after.remove({"dc:subject": ["cat"]})
    assert not Xmp(without(described("", 'dc:subject="cat"'), "cat")).has("dc:subject")


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
STRANGER = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (LAUGHS.encode() + described("<dc:subject>&b;</dc:subject>"), "has a document type"),
        (STRANGER.encode() + described("<dc:subject>&a;</dc:subject>"), "has a document type"),
        (STRANGER.encode("utf-16") + described("&a;").decode().encode("utf-16-le"), "has a document type"),
        (b'<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd">' + described(""), "has a document type"),
        (described("<dc:subject>&a;</dc:subject>"), "is not well-formed XML: Entity 'a' not defined"),
        (b"", "is not well-formed XML: Document is empty"),
        (b"\xff\xd8\xff\xe0 not xml", "is not the utf-8 that it claims to be"),
        (described("")[:-5], "is not well-formed XML"),
        (b"<svg/>", "is XML without rdf:RDF, and not XMP"),
        (described("<a>" * 10_000 + "</a>" * 10_000), "is not well-formed XML: Excessive depth"),
        (b" " * (MAX_BYTES + 1), "has more than 16 MB"),
        (b'<?xml version="1.0" encoding="EBCDIC-INT"?>' + described(""), "has the encoding ebcdic-int"),
        (b"\xff\xfe\0\0" + b"<\0\0\0", "is UTF-32"),
        (b"\xff\xfe<\0a", "is not the utf-16-le that it claims to be"),
        (described("?").replace(b"?", b"\xed\xa0\x80"), "is not the utf-8 that it claims to be"),
    ],
)
def test_other_data_than_xmp_has_a_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(XmpError) as error:
        Xmp(data)
    assert str(error.value).startswith(reason)


@pytest.mark.parametrize("word", ["", "  ", "a\nb", "a\0b", "\udc80", "x" * (MAX_KEYWORD + 1), "\ufffe"])
def test_text_that_xmp_cannot_hold_is_refused_as_keyword(word: str) -> None:
    with pytest.raises(LikewiseError, match="cannot be a keyword; expected 1 to 1,000 letters"):
        checked_keyword(word)


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5))
def test_any_keyword_comes_back_as_it_was(words: list[str]) -> None:
    sound = []
    for word in words:
        try:
            sound.append(checked_keyword(word))
        except LikewiseError:
            continue
    for data in (EMPTY, FOREIGN, FOREIGN.decode().encode("utf-16")):
        xmp = Xmp(with_word(data, *dict.fromkeys(sound)))
        xmp.remove({"dc:subject": set(sound) - {"beach & sea"}})
        assert Xmp(xmp.to_bytes()).words("dc:subject") == Xmp(data).words("dc:subject")
