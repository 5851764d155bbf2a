"""How long images take: size and rate, some at a time, kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.node.hollow.images import IMAGE_SIZE, ImagePulls, PullSpeed, image_size_problem, parse_pull_speed

MIB = 2**20
SLOW = PullSpeed(bytes_per_second=100 * MIB, size_bytes=500 * MIB)


def test_an_image_takes_its_size_and_is_kept() -> None:
    pulls = ImagePulls(SLOW)
    assert pulls.pull("n", ["a"], None, 0.0) == 5
    assert pulls.pull("n", ["a"], None, 2.0) == 3, "it is on its way already"
    assert pulls.pull("n", ["a"], None, 9.0) == 0
    assert pulls.pull("other", ["a"], None, 9.0) == 5
    assert pulls.pull("n", ["big"], {IMAGE_SIZE: "2Gi"}, 10.0) == pytest.approx(20.48)


def test_pulls_of_a_node_wait_for_one_another() -> None:
    assert ImagePulls(SLOW).pull("n", ["a", "b", "a"], None, 0.0) == 10
    assert ImagePulls(PullSpeed(bytes_per_second=100 * MIB, parallel=2)).pull("n", ["a", "b", "c"], None, 0.0) == 10


def test_images_are_there_at_once_unless_somebody_says_how_fast_they_come() -> None:
    assert ImagePulls().pull("n", ["a"], {IMAGE_SIZE: "2Gi"}, 0.0) == 0
    assert not ImagePulls().take_time
    assert parse_pull_speed("") == PullSpeed()


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 5)), max_size=40),
    st.integers(1, 4),
)
def test_a_node_never_pulls_faster_than_its_pulls_together(arrivals: list[tuple[int, float]], parallel: int) -> None:
    pulls, now, last = ImagePulls(PullSpeed(bytes_per_second=1.0, size_bytes=10.0, parallel=parallel)), 0.0, 0.0
    for image, step in arrivals:
        now += step
        last = max(last, now + pulls.pull("n", [str(image)], None, now))
    different = len({image for image, _ in arrivals})
    assert last >= 10 * different / parallel - 1e-9 or not arrivals
    assert last <= now + 10 * different + 1e-9


def test_speeds_are_read_and_refused_as_a_whole() -> None:
    want = PullSpeed(bytes_per_second=100 * MIB, size_bytes=500 * MIB, parallel=3)
    assert parse_pull_speed("rate=100Mi, size=500Mi,parallel=3") == want
    with pytest.raises(InvalidInput) as refused:
        parse_pull_speed("size=none,parallel=1.5,speed=3")
    assert len(refused.value.problems) == 3
    with pytest.raises(InvalidInput, match="rate: is missing"):
        parse_pull_speed("size=1Gi")


def test_a_size_that_cannot_be_read_is_named() -> None:
    assert image_size_problem({IMAGE_SIZE: "-2Gi"}).endswith("want a size such as 2Gi")
    assert image_size_problem({IMAGE_SIZE: "2Gi"}) == image_size_problem(None) == ""
