"""JSON decoded in pieces is what msgspec makes of the whole."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.server import incrementaljson
from strato.server.flowcontrol.dispatch import at_once
from tests.profiles import examples

BLANKS = st.sampled_from(["", "", "", " ", "\n\t", "  "])
TEXTS = st.one_of(
    st.sampled_from(['""', '"a"', '"b"', '"\\""', '"\\\\"', '"[{,"', '"]}"', '"\\u00e4\\n"', '"\u4e2d"']),
    st.integers(0, 3000).map(lambda size: '"' + "x" * size + '\\n"'),
)
SCALARS = st.one_of(st.sampled_from(["0", "-1", "2.5e3", "true", "null"]), TEXTS)


def _list(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.tuples(BLANKS, inner, BLANKS).map("".join)
    return st.lists(one, max_size=6).map(lambda items: f"[{','.join(items)}]")


def _map(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.tuples(BLANKS, TEXTS, BLANKS, st.just(":"), BLANKS, inner, BLANKS).map("".join)
    return st.lists(one, max_size=6).map(lambda items: f"{{{','.join(items)}}}")


DOCUMENTS = st.recursive(SCALARS, lambda inner: _list(inner) | _map(inner), max_leaves=40)


def _outcome(read: object, body: bytes, **options: int) -> tuple[str, object]:
    try:
        value = at_once(incrementaljson.decoded(body, most_depth=128, **options)) if options else read(body)  # type: ignore[operator]  # a table of callables
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "refused", None
    return "read", msgspec.json.encode(value)  # which shows the order of keys too


@settings(max_examples=examples(400))
@given(document=DOCUMENTS, piece=st.integers(0, 40))
def test_pieces_are_put_together_as_they_stood(document: str, piece: int) -> None:
    body = document.encode()
    assert _outcome(None, body, chunk_bytes=piece) == _outcome(msgspec.json.decode, body)


@settings(max_examples=examples(400))
@given(document=DOCUMENTS, piece=st.integers(0, 40), data=st.data())
def test_what_is_not_json_is_refused_wherever_it_is_cut(document: str, piece: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(document)))
    gone = data.draw(st.integers(0, 2))
    put = data.draw(st.sampled_from(["", ",", "{", "]", "}", "[", '"', ":", "\\", "1", " ", "\u00e9"]))
    body = (document[:at] + put + document[at + gone :]).encode()
    assert _outcome(None, body, chunk_bytes=piece) == _outcome(msgspec.json.decode, body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"a":[' * 60 + b"1" + b"]}" * 60, id="deep"),
        pytest.param((b'{"a":[' + b"1," * 300) * 60 + b"1" + b"]}" * 60, id="deep, with values on each level"),
        pytest.param(b'["' + b"\\u00e4,[{" * 40_000 + b'",1]', id="a long text of brackets and escapes"),
        pytest.param(b"{%s}" % b",".join(b'"k%d":{"a":[1,"x"]}' % n for n in range(20_000)), id="a large map"),
        pytest.param(b'{"a":%s,"a":2,"b":1}' % (b"[%s1]" % (b"1," * 20_000)), id="a key of something large, repeated"),
    ],
)
def test_large_bodies_are_read_in_many_steps(body: bytes) -> None:
    steps = incrementaljson.decoded(body, most_depth=128, chunk_bytes=512)
    value: list[object] = []

    def whole() -> Iterator[None]:
        value.append((yield from steps))

    assert sum(1 for _ in whole()) >= len(body) // (1 << 18)
    assert value == [msgspec.json.decode(body)]


def test_what_is_wrong_is_said_of_the_whole_body() -> None:
    body = b"[" + b"1," * 50_000 + b"x]"
    with pytest.raises(msgspec.DecodeError, match=r"\(byte 100001\)"):
        at_once(incrementaljson.decoded(body, most_depth=128))


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(incrementaljson.TooDeep):
        at_once(incrementaljson.decoded(b"[" * 129 + b"]" * 129, most_depth=128))


UNITS = st.sampled_from(
    [
        "a",
        "x" * 300,
        "\\n",
        "\\\\",
        '\\"',
        "\\u00e4",
        "\\ud83d\\ude00",
        "\\\\ud83d",
        "\\ud83d",
        "\\ude00",
        "\u4e2d",
        "\U0001f600",
        "[{,",
    ]
)
LONG_TEXTS = st.lists(st.tuples(UNITS, st.integers(1, 90)).map(lambda one: one[0] * one[1]), max_size=12).map("".join)


@settings(max_examples=examples(400))
@given(
    texts=st.lists(LONG_TEXTS, min_size=1, max_size=3),
    template=st.sampled_from(["%s", " %s ", "[%s]", '{"a":%s}', '[[1],{"b":[2,%s,3]},%s]']),
    least=st.integers(8, 400),
)
def test_a_long_text_is_decoded_in_pieces_as_it_stood(texts: list[str], template: str, least: int) -> None:
    values = [f'"{texts[n % len(texts)]}"' for n in range(template.count("%s"))]
    body = (template % tuple(values)).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incrementaljson, "_BYTES_AT_ONCE", least)
        assert _outcome(None, body, chunk_bytes=64) == _outcome(msgspec.json.decode, body)


@pytest.mark.parametrize(
    "unit",
    [b"\\n", b"\\u00e4", b"\\ud83d\\ude00", b"\\\\ud83d", b"\\\\", "\u4e2d".encode(), b"x"],
    ids=["n", "u", "pair", "no pair", "backslashes", "wide", "plain"],
)
def test_no_long_text_is_decoded_in_one_go(unit: bytes) -> None:
    body = b'{"a":"%b"}' % (unit * (2_000_000 // len(unit)))
    steps = incrementaljson.decoded(body, most_depth=128)
    assert sum(1 for _ in steps) >= 8
    assert at_once(incrementaljson.decoded(body, most_depth=128)) == msgspec.json.decode(body)


def test_a_long_key_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError, match="a key is longer than 196608 bytes"):
        at_once(incrementaljson.decoded(b'{"%b":1}' % (b"k" * 600_000), most_depth=128))
