"""Addresses, networks, URLs, instants, durations and sets in CEL."""

from __future__ import annotations

import pytest

from strato.api import cel
from strato.api.cel.libraries import duration
from strato.server.schema.structural import StructuralSchema


@pytest.mark.parametrize(
    "text",
    [
        "isIP('10.0.0.1') && isIP('::1') && !isIP('10.0.0.256') && !isIP('fe80::1%eth0') && !isIP('::ffff:1.2.3.4')",
        "ip('127.0.0.1').isLoopback() && ip('10.0.0.1').family() == 4 && ip('::1').family() == 6",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('169.254.1.1').isLinkLocalUnicast()",
        "ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && ip('0.0.0.0').isUnspecified()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('0:0::1')) == '::1'",
        "isCIDR('192.168.0.0/24') && !isCIDR('192.168.0.0') && !isCIDR('192.168.0.0/33') && !isCIDR('1.2.3.4/a')",
        "cidr('192.168.0.0/24').containsIP('192.168.0.7') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.7'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && cidr('192.168.0.1/24').prefixLength() == 24",
        "cidr('192.168.0.1/24').ip() == ip('192.168.0.1')",
        "isURL('https://a:8/b') && isURL('/path') && !isURL('a b') && !isURL('example.com')",
        "url('https://me@a.b:80/p/q?x=1&x=2').getHost() == 'a.b:80' && url('https://a:80/').getPort() == '80'",
        "url('https://a:80/p%20q?k=1&k=2').getQuery()['k'] == ['1', '2']",
        "url('https://a:80/p%20q').getEscapedPath() == '/p%20q' && url('https://[::1]:80/').getHostname() == '::1'",
        "duration('1h30m') == duration('90m') && duration('-1.5s') < duration('0') && duration('90m').getHours() == 1",
        "duration('1500ms').getMilliseconds() == 500 && string(duration('1h')) == '3600s'",
        "timestamp('2024-02-29T12:30:00Z') + duration('24h') == timestamp('2024-03-01T12:30:00Z')",
        "timestamp('2024-03-01T00:00:00Z') - timestamp('2024-02-29T00:00:00Z') == duration('24h')",
        "timestamp('2024-02-29T23:30:00Z').getDayOfMonth() == 28 && timestamp('2024-02-29T23:30:00Z').getMonth() == 1",
        "timestamp('2024-02-29T23:30:00Z').getHours('+01:00') == 0",
        "timestamp('2024-02-29T00:00:00Z').getDayOfWeek() == 4",
        "timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59",
        "timestamp('2024-02-29T23:30:00Z').getHours('America/New_York') == 18",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && string(timestamp('2024-02-29T00:00:00Z')).endsWith('Z')",
        "'abc 123 45'.find('[0-9]+') == '123' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a'.find('b') == ''",
        "'a1b22'.findAll('[0-9]+', 1) == ['1']",
        "sets.contains([1, 2, 3], [2]) && !sets.contains([1], [2]) && sets.equivalent([1, 1, 2], [2, 1])",
        "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])",
    ],
)
def test_functions_answer_as_kubernetes_documents_them(text: str) -> None:
    assert cel.compile_expression(text)({}) is True


@pytest.mark.parametrize(
    "text",
    [
        "ip('x')",
        "cidr('10.0.0.0')",
        "url('a b')",
        "duration('1 hour')",
        "duration('h')",
        "duration('')",
        "duration('9223372037s')",
        f"duration('{'9' * 400}h')",
        "timestamp('noon')",
        "timestamp('2024-02-29T00:00:00Z').getHours('Nowhere/At_All')",
        "timestamp('9999-12-31T00:00:00Z') + duration('48h')",
        "timestamp('2024-02-29T00:00:00Z') + timestamp('2024-02-29T00:00:00Z')",
        "timestamp('2024-02-29T00:00:00Z') < duration('1s')",
        "ip('10.0.0.1') < ip('10.0.0.2')",
    ],
)
def test_what_cannot_be_read_or_combined_is_an_error(text: str) -> None:
    with pytest.raises(cel.EvaluationError):
        cel.compile_expression(text)({})


@pytest.mark.parametrize("text", ["1" * 1_000_000, "." * 1_000_000, "1" * 1_000_000 + "h", "1." * 500_000])
def test_a_long_text_that_is_no_duration_takes_linear_time(text: str) -> None:
    """Quadratic, it would take hours."""
    with pytest.raises(ValueError, match="invalid duration"):
        duration(text)


def test_rules_see_instants_and_durations_where_the_format_says_so() -> None:
    when = {"type": "string", "format": "date-time"}
    span = {"type": "string", "format": "duration", "x-kubernetes-validations": [{"rule": "self > duration('1s')"}]}
    schema = StructuralSchema(
        {
            "type": "object",
            "properties": {"from": when, "to": when, "spans": {"type": "array", "items": span}},
            "x-kubernetes-validations": [{"rule": "self.from < self.to && self.to - self.from < duration('48h')"}],
        }
    )
    fine = {"from": "2024-01-01T00:00:00Z", "to": "2024-01-02T00:00:00+01:00", "spans": ["1h"]}
    assert schema.validate(fine) == []
    assert [cause.field for cause in schema.validate({**fine, "to": fine["from"]})] == [""]
    (cause,) = schema.validate({**fine, "spans": ["1ms"]})
    assert (cause.field, cause.message) == ("spans[0]", "Invalid value: \"1ms\": failed rule: self > duration('1s')")
