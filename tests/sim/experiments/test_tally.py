from __future__ import annotations

from strato.sim.experiments.tally import ProgressTally
from strato.sim.progress import Progress


def test_a_line_says_who_how_far_how_fast_and_how_long_yet() -> None:
    tally = ProgressTally({0: "easy, seed 0", 1: "easy, seed 1"}, {0: 1000, 1: 1000})
    assert tally.line(1.0) == ""
    tally.note(0, Progress(7200.0, 600, 500, 1000, 12))
    assert tally.line(10.0) == (
        "easy, seed 0: 120m simulated, 0 of 2 runs ended, 500 of 2,000 jobs ended (50/s), about 30s left"
    )
    assert tally.bar(8) == "██░░░░░░"
    tally.note(0, Progress(9000.0, 1000, 1000, 1000, 0))
    tally.note(1, Progress(9000.0, 1000, 1000, 1000, 0))
    assert tally.is_done
    assert tally.line(40.0).endswith("2 of 2 runs ended, 2,000 of 2,000 jobs ended (50/s)")


def test_what_was_kept_does_not_count_as_fast() -> None:
    tally = ProgressTally({0: "a", 1: "b"}, {0: 900, 1: 100}, [0])
    tally.note(1, Progress(60.0, 50, 50, 100, 3))
    assert "1 of 2 runs ended, 950 of 1,000 jobs ended (5/s), about 10s left" in tally.line(10.0)


def test_a_single_run_shows_its_pods() -> None:
    tally = ProgressTally({0: "a"}, {0: 10})
    tally.note(0, Progress(60.0, 5, 0, 10, 3))
    assert tally.line(0.0) == "a: 60s simulated, 0 of 10 jobs ended (0/s), 3 pods run"
