from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from strato.errors import InvalidInput
from strato.interop.yarn import hadoopxml

BOMB = '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]>\n<a>&d;</a>'


def test_elements_know_their_lines_and_the_text_before_their_first_child() -> None:
    root = hadoopxml.parse("<a>\n <!-- no text -->\n <b x='1'> t </b>\n <c/><b/>\n</a>")
    assert [(one.name, one.line, one.text) for one in root.children] == [
        ("b", 3, " t "),
        ("c", 4, None),
        ("b", 4, None),
    ]
    assert root.children[0].attributes == {"x": "1"}
    assert [one.line for one in root.all_named("b")] == [3, 4]


BAD: list[Any] = [
    ("no xml", b"this is text", "line 1: no XML: syntax error"),
    ("nothing", b"", "no XML: no element found"),
    ("an element that does not end", b"<a>\n<b>\n</a>", "line 3: no XML: mismatched tag"),
    ("entities", BOMB, "line 1: declares a document type or entities"),
    ("a document type alone", "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", "declares a document type"),
    ("too deep", b"<a>" * 100, f"more than {hadoopxml.MOST_DEPTH} others"),
    ("too many", b"<a>" + b"<b/>" * (hadoopxml.MOST_ELEMENTS + 1), "more than 200000 elements"),
    ("too large", b" " * (hadoopxml.MOST_BYTES + 1), "more than 16 MiB"),
    ("an encoding there is not", b"<?xml version='1.0' encoding='x-none'?><a/>", "no XML"),
    ("bytes that are no text", b"<?xml version='1.0' encoding='utf-8'?><a>\xff\xfe</a>", "no XML"),
]


@pytest.mark.parametrize(("content", "text"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_cannot_be_read_is_refused_with_file_and_line(content: bytes | str, text: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(text)) as caught:
        hadoopxml.parse(content, "fair-scheduler.xml")
    assert str(caught.value).startswith("fair-scheduler.xml is invalid (1 problem)")


def test_a_file_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file or directory"):
        hadoopxml.read_file(tmp_path / "none.xml")


def _settings(properties: str) -> hadoopxml.HadoopSettings:
    return hadoopxml.settings_of(hadoopxml.parse(f"<configuration>{properties}</configuration>", "s.xml"), "s.xml")


def _property(name: str, value: str, more: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{more}</property>\n"


def test_a_later_property_wins_unless_the_earlier_is_final() -> None:
    found = _settings(
        _property("a", "1") + _property("a", "2") + _property("b", "1", "<final>true</final>") + _property("b", "2")
    )
    assert (found.get("a"), found.get("b"), found.get("c", "none")) == ("2", "1", "none")
    assert found.where("a") == "s.xml, line 2: a"


def test_values_refer_to_others_and_blanks_stay_in_raw_ones() -> None:
    found = _settings(_property("a", "${b}-${unknown}") + _property("b", "${c}") + _property("c", " x "))
    assert found.raw("a") == " x -${unknown}"
    assert found.get("c") == "x"


def test_values_that_refer_to_themselves_end() -> None:
    assert len(_settings(_property("a", "${a}${a}")).raw("a") or "") < 1000


def test_a_property_may_be_written_in_attributes_and_without_a_value_is_not_set() -> None:
    found = _settings("<property name='a' value='1'/><property><name>b</name></property>")
    assert found.get("a") == "1"
    assert "b" not in found


def test_all_problems_of_a_configuration_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        _settings("<property><value>1</value></property>\n<include href='more.xml'/>")
    assert [problem.where for problem in caught.value.problems] == ["line 1", "line 2"]
    with pytest.raises(InvalidInput, match="expected <configuration>"):
        hadoopxml.settings_of(hadoopxml.parse("<allocations/>"))


def test_names_that_are_too_long_to_be_taken_apart_are_refused() -> None:
    name = "yarn.scheduler.capacity.root" + ".a" * 75_000
    with pytest.raises(InvalidInput, match="a <name> of more than 1024 characters"):
        _settings(f"<property><name>{name}</name><value>1</value></property>")
