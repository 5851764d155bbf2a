"""Lists of CPUs."""

import pytest

from strato.agent.koordinator.cpusets import parse_cpus


def test_lists_are_read_as_the_kernel_writes_them() -> None:
    assert parse_cpus("0-3,7\n") == [0, 1, 2, 3, 7]
    assert parse_cpus("") == []


@pytest.mark.parametrize("text", ["0-99999999999", "65536", "a", "-1-2"])
def test_what_is_no_list_of_cpus_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"CPUs|invalid"):
        parse_cpus(text)
