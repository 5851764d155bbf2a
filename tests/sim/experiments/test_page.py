"""The page and its pictures: whole, harmless whatever users named, equal for equal runs; and in a real browser."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from strato.sim.experiments.page import page_of
from strato.sim.experiments.results import Results, RunResult, differences, summaries
from strato.sim.pictures.all import pictures_of, write_pictures
from strato.sim.pictures.digest import RunDigest, digest_run
from strato.sim.results.record import Ending
from tests.sim.results.build import Ran, job, nodes, record

pytest.importorskip("matplotlib")

IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"
FORMULA = "$x^2$ & \x00\x1b"
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
EXPECTED = {
    "side-by-side", "job-by-job", "wait-by-size", "wait-by-tenant", "slowdown", "utilisation", "fragmentation",
    "fairness", "queue-shares-0", "queue-shares-1", "evictions", "nodes-0", "nodes-1", "jobs-0", "jobs-1",
}  # fmt: skip


def digest(policy: str, seed: int, count: int = 40) -> RunDigest:
    random = np.random.default_rng(seed + len(policy))
    jobs = [
        job(
            IMAGE if i == 7 else f"j{i}",
            i * 20.0,
            cpu=str(1 + i % 4),
            queue=("prod", FORMULA, SCRIPT)[i % 3],
            user=f"{IMAGE}{i % 4}",
            replicas=1 + i % 2,
        )
        for i in range(count)
    ]
    ran = []
    for i in range(count - 1):
        begin = i * 20.0 + float(random.exponential(300))
        end = begin + float(random.exponential(500))
        node = int(random.integers(3))
        if i == 9:
            ran.append(Ran(i, begin, begin + 5, node, ending=Ending.EVICTED, gainer=10))
        ran += [Ran(i, begin + 6, end + 6, node, pod) for pod in range(1 + i % 2)]
    made = record(jobs, ran, nodes(3, 32), reasons={count - 1: f"too wide {SCRIPT}"})
    return digest_run(made, policy=policy, seed=seed, trace=IMAGE, nodes="3x32cpu")


def results(digests: list[RunDigest]) -> Results:
    runs = [RunResult(one.policy, one.variant, one.seed, {}, one.report) for one in digests]
    return Results(f"e {SCRIPT}", "t.csv", "objects", len(runs), runs, summaries(runs), differences(digests), {})


@pytest.fixture(scope="module")
def page() -> str:
    digests = [digest(policy, seed) for seed in (0, 1) for policy in (f"p {SCRIPT}", "q")]
    return page_of(results(digests), pictures_of(digests))


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_holds_every_picture_and_nothing_that_could_run_or_load(page: str) -> None:
    elements = Elements()
    elements.feed(page)
    assert {attrs["id"] for tag, attrs in elements.found if tag == "figure"} == EXPECTED
    assert not {tag for tag, _ in elements.found} & {
        "script",
        "img",
        "iframe",
        "object",
        "link",
        "embed",
        "foreignobject",
    }
    for _, attrs in elements.found:
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("src", "href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:image/png;base64,")), attrs
    assert "url(http" not in page
    assert "@import" not in page


def test_names_stay_text(page: str) -> None:
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\x00" not in page
    assert "\x1b" not in page
    assert "$x^2$" in page, "no formula is made of a name"


def test_ids_of_the_page_are_there_once(page: str) -> None:
    found = re.findall(r'\bid="([^"]+)"', page)
    assert len(found) == len(set(found))
    for target in re.findall(r'(?:url\(#|href="#)([^)"]+)', page):
        assert target in found


def test_pictures_are_whole_files_and_equal_for_equal_runs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        digests = [digest("p", 0)]
        write_pictures([one for one in pictures_of(digests) if one.name in ("fairness", "nodes-0")], tmp_path / name)
    files = sorted(one.name for one in (tmp_path / "one").iterdir())
    assert files == ["fairness.png", "fairness.svg", "nodes-0.png", "nodes-0.svg"]
    for name in files:
        data = (tmp_path / "one" / name).read_bytes()
        assert data == (tmp_path / "two" / name).read_bytes()
        assert data.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
        if name.endswith("svg"):
            ElementTree.fromstring(data)


@pytest.mark.parametrize("count", [0, 1])
def test_runs_of_nothing_have_a_page(count: int) -> None:
    digests = [digest_run(record([job(f"j{i}") for i in range(count)], []), policy=name) for name in ("p", "q")]
    assert "<figure" in page_of(results(digests), pictures_of(digests))


def test_many_nodes_and_jobs_are_thinned() -> None:
    count = 3000
    jobs = [job(f"j{i}", float(i)) for i in range(count)]
    big = record(jobs, [Ran(i, float(i), i + 50.0, i % 500) for i in range(count)], nodes(500))
    digests = [digest_run(big, policy="p")]
    text = page_of(results(digests), pictures_of(digests))
    assert len(text) < 2_000_000
    assert "in 120 groups of neighbours" in text
    assert "The 2,200 smallest by area are not drawn." in text


@pytest.mark.skipif(not CHROMIUM, reason="no chromium is installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_the_page_without_errors_or_requests(page: str, tmp_path: Path, scheme: str) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    path = tmp_path / "report.html"
    path.write_text(page)
    problems: list[str] = []
    requests: list[str] = []
    with sync_api.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        view = browser.new_page(color_scheme=scheme)
        view.on("console", lambda message: problems.append(message.text))
        view.on("pageerror", lambda error: problems.append(str(error)))
        view.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        view.on("request", lambda request: requests.append(request.url))
        view.goto(path.as_uri())
        boxes = {name: view.locator(f"figure#{name} svg").bounding_box() for name in sorted(EXPECTED)}
        marks = {name: view.locator(f"figure#{name} svg path").count() for name in sorted(EXPECTED)}
        text = view.inner_text("body")
        ink = view.eval_on_selector("figure#utilisation svg text", "one => getComputedStyle(one).fill")
        images = view.locator("img, script").count()
        browser.close()
    assert problems == []
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    assert all(box is not None and box["width"] > 400 and box["height"] > 60 for box in boxes.values()), boxes
    assert all(count > 5 for count in marks.values()), marks
    assert IMAGE in text
    assert images == 0
    assert ink == ("rgb(89, 99, 110)" if scheme == "light" else "rgb(145, 152, 161)")
