"""The part of Go's templates that stages use."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.node.hollow.stages.gotemplate import BadTemplate, GoTemplate, Number, TemplateFailed

VALUE: dict[str, Any] = {
    "name": "p",
    "n": Number("3"),
    "list": ["a", "b"],
    "map": {"y": "2", "x": "1"},
    "nested": {"items": [{"k": "v"}, {"k": "w"}]},
    "empty": [],
    "no": False,
}
CASES: list[tuple[str, str]] = [
    ("plain", "plain"),
    ("{{ .name }}-{{ .n }}", "p-3"),
    ("{{ .nothing }}", "<no value>"),
    ("{{ .nothing.more }}", "<no value>"),
    ("{{ .name | Quote }}", '"p"'),
    ("{{ .n | Quote }}", '"3"'),
    ("{{ .nothing | Quote }}", '"null"'),
    ("{{ .map | Quote }}", '"{\\"x\\":\\"1\\",\\"y\\":\\"2\\"}"'),
    ("{{ if .name }}yes{{ else }}no{{ end }}", "yes"),
    ("{{ if .empty }}yes{{ else }}no{{ end }}", "no"),
    ('{{ if .no }}a{{ else if eq .name "p" }}b{{ else }}c{{ end }}!', "b!"),
    ("{{ if .no }}a{{ else if .empty }}b{{ else }}c{{ end }}!", "c!"),
    ("{{ if .name }}{{ if .no }}a{{ else }}b{{ end }}c{{ else }}d{{ end }}e", "bce"),
    ("{{ with .map }}{{ .x }}{{ else }}none{{ end }}", "1"),
    ("{{ with .nothing }}{{ .x }}{{ else }}none{{ end }}", "none"),
    ("{{ range .list }}<{{ . }}>{{ end }}", "<a><b>"),
    ("{{ range $i, $v := .list }}{{ $i }}{{ $v }}{{ end }}", "0a1b"),
    ("{{ range $v := .list }}{{ $v }}{{ end }}", "ab"),
    ("{{ range $k, $v := .map }}{{ $k }}{{ $v }}{{ end }}", "x1y2"),
    ("{{ range .empty }}x{{ else }}none{{ end }}", "none"),
    ("{{ range .nothing }}x{{ else }}none{{ end }}", "none"),
    ("{{ range .nested.items }}{{ .k }}{{ $.name }}{{ end }}", "vpwp"),
    ("{{ $x := .name }}{{ $x }}", "p"),
    (
        '{{ $found := false }}{{ range .list }}{{ if eq . "b" }}{{ $found = true }}{{ end }}{{ end }}{{ $found }}',
        "true",
    ),
    ("{{ $x := 1 }}{{ if .name }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}", "21"),
    ('{{ or .nothing .name "z" }}', "p"),
    ("{{ and .name .no }}", "false"),
    ("{{ or .no (index .list 1) }}", "b"),
    ("{{ not .no }}", "true"),
    ('{{ index .map "x" }}{{ index .list 0 }}{{ index .nested.items 1 "k" }}', "1aw"),
    ("{{ (index .nested.items 0).k }}", "v"),
    ('{{ eq .nothing "x" }}', "false"),
    ('{{ eq .n 3 }}{{ eq .name "q" "p" }}{{ ne .name "q" }}', "truetruetrue"),
    ("{{ lt 1 2 }}{{ ge .n 4 }}", "truefalse"),
    ("{{ len .list }}", "2"),
    ('{{ printf "kwok-%s %d%% %q" .name .n .name }}', 'kwok-p 3% "p"'),
    ('{{ or .nothing `""` }}', '""'),
    ("a: {{ YAML .map 1 }}", 'a: \n  {"x": "1", "y": "2"}'),
    ('{{ dict "a" 1 }}{{ list 1 2 }}', "map[a:1][1 2]"),
    ('{{ .nothing | default "d" | upper }}', "D"),
    ("a {{- .name -}} b", "apb"),
    ("a{{/* a }} comment */}}b", "ab"),
    ('{{ "}}" }}', "}}"),
    ("{{ .list }}{{ .map }}", "[a b]map[x:1 y:2]"),
    ("{{ add 1 .n }}", "4"),
    ("{{ true }}{{ nil | empty }}", "truetrue"),
]


@pytest.mark.parametrize(("template", "want"), CASES, ids=[template for template, _ in CASES])
def test_a_template_makes_what_go_does(template: str, want: str) -> None:
    assert GoTemplate(template, {}).render(VALUE) == want


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ .a", "an action without its end"),
        ("{{ if .a }}", "{{ if … }} without an end"),
        ("{{ end }}", "{{ end }} without an if"),
        ("{{ else }}", "{{ else }} without an if"),
        ('{{ define "x" }}{{ end }}', "define is not understood here"),
        ("{{ now }}", "function now is not known to these nodes"),
        ("{{ .a | env }}", "function env is not known to these nodes"),
        ("{{ .a .b }}", "'.b' is not understood"),
        ("{{ .a | .b }}", "only functions can come after |"),
        ("{{ (.a }}", "its end is not understood"),
        ("{{ if }}x{{ end }}", "ends where a value is expected"),
        ("{{ ! }}", "'!' is not understood"),
        ("{{ " + "(" * 100 + ".a" + ")" * 100 + " }}", "nested too deeply"),
        ("{{ if .a }}" * 100 + "{{ end }}" * 100, "nested too deeply"),
        ("x" * 300_000, "more than 262144 characters"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(template: str, problem: str) -> None:
    with pytest.raises(BadTemplate) as refused:
        GoTemplate(template, {})
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ .name.x }}", "p has no member x"),
        ("{{ index .nothing 1 }}", "function index: index of nothing"),
        ("{{ index .list 9 }}", "out of range: 9"),
        ("{{ range .name }}{{ end }}", "range cannot go over p"),
        ('{{ printf "%x" .name }}', "only %s, %v, %d, %q and %% are understood"),
        ("{{ $x }}", "variable $x is not known"),
        ("{{ len .no }}", "function len"),
        ("{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}", "too many steps"),
    ],
)
def test_what_does_not_go_with_the_object_is_named(template: str, problem: str) -> None:
    with pytest.raises(TemplateFailed) as failed:
        GoTemplate(template, {}).render(VALUE)
    assert problem in str(failed.value)


PIECES = [
    "{{ ",
    " }}",
    "{{ end }}",
    "if ",
    "range ",
    "with ",
    "else ",
    ".list ",
    ".name ",
    "$x := ",
    "$x ",
    "| Quote ",
    "(",
]


@given(st.lists(st.sampled_from([*PIECES, ") ", "eq ", '"t" ', "text", "{{- "]), max_size=12))
def test_no_text_is_a_surprise(pieces: list[str]) -> None:
    with contextlib.suppress(BadTemplate, TemplateFailed):
        assert isinstance(GoTemplate("".join(pieces), {}).render(VALUE), str)
