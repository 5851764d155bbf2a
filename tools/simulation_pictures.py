"""Draw the documentation's pictures of simulations: python tools/simulation_pictures.py.

Runs the experiments of the examples and writes what the pages show of their reports to docs/images/simulation.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from strato.sim.experiments.file import read_experiment
from strato.sim.experiments.pool import run_all
from strato.sim.experiments.results import results_of
from strato.sim.pictures.all import pictures_of

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images" / "simulation"
SHOWN = {
    "twenty-nodes": ("side-by-side", "job-by-job", "wait-by-size", "utilisation"),
    "schools": ("wait-by-tenant", "job-by-job", "queue-shares-0", "fragmentation"),
}
"""By example, what its page shows."""


def main() -> None:
    """Run and draw everything."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for example, names in SHOWN.items():
        experiment = read_experiment(ROOT / "examples" / example / "experiment.yaml")
        with tempfile.TemporaryDirectory() as folder:
            results, digests = results_of(experiment, run_all(experiment, Path(folder), cores=2))
        print(f"{experiment.name}\n{results.to_table()}")
        for picture in pictures_of(digests):
            if picture.name in names:
                (IMAGES / f"{example}-{picture.name}.svg").write_text(picture.themed())


if __name__ == "__main__":
    main()
