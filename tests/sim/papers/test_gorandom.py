"""Go's generator: the first numbers for seed 1, which every Go program before 1.20 drew without seeding."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strato.sim.papers.gorandom import GoRandom


def test_seed_one_draws_what_unseeded_go_programs_drew() -> None:
    random = GoRandom(1)
    assert [random.intn(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_unseeded_go_programs_began_with_this_number() -> None:
    assert GoRandom(1).int63() == 5577006791947779410


@given(st.integers(-(2**62), 2**62), st.integers(1, 2**31 - 1))
def test_numbers_are_below_their_limit(seed: int, limit: int) -> None:
    random = GoRandom(seed)
    assert all(0 <= random.intn(limit) < limit for _ in range(5))


@given(st.integers(0, 2**31), st.integers(0, 40))
def test_permutations_and_shuffles_lose_nothing(seed: int, count: int) -> None:
    random = GoRandom(seed)
    items = list(range(count))
    random.shuffle(items)
    assert sorted(items) == sorted(random.permutation(count)) == list(range(count))
