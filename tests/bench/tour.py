"""The four users' walks through the pages, photographed.

    python tests/bench/tour.py SHOTS [--demo FOLDER | --seeded small|full] [--keep FILE]

``--demo FOLDER``: over a copy of the database that ``make demo DEMO_ARGS=--once`` left in FOLDER (without the option a
demo is played in a temporary folder). ``--seeded``: over what the seeding command makes (``full``: 1,000,000 results;
``--keep`` as of ``pages.py``). Saves every view in light, in the dark, on a phone and on paper as PNG into SHOTS and
prints what it found that a page should not show, axe's serious findings in light and in the dark among it; exit code 1
when there is any, 2 when there is no Chromium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import demo_run
import page_browser
import page_seed
import page_tour
import pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path)
    parser.add_argument("--demo", type=Path)
    parser.add_argument("--seeded", choices=("small", "full"))
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    if page_browser.CHROMIUM is None:
        print("NOT RUN: no Chromium on PATH")
        return 2
    args.shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        allowlist = None
        if args.seeded:
            file = args.keep or folder / "pages.sqlite3"
            database = f"sqlite:///{file.absolute()}"
            objects = file.absolute().with_name(f"{file.name}.artifacts")
            pages.prepared(database, page_seed.SMALL if args.seeded == "small" else page_seed.Size(), file, objects)
            artifacts = str(objects)
        else:
            copy = folder / "copy"
            copy.mkdir()
            database, artifacts, allowlist = page_tour.of_demo(args.demo or played(folder / "demo"), copy)
        return walked(folder, database, artifacts, allowlist, args.shots)


def played(folder: Path) -> Path:
    demo = demo_run.DemoRun(folder, "--once")
    try:
        if demo.finish() != 0:
            raise SystemExit(f"the demo failed:\n{demo.said()}")
    finally:
        demo.stop()
    return folder


def walked(folder: Path, database: str, artifacts: str, allowlist: str | None, shots: Path) -> int:
    at, faults = page_tour.place(database), []
    with page_tour.site(folder, database, artifacts, allowlist) as url, page_browser.chromium() as browser:
        for name, walk in page_tour.WALKS.items():
            with page_browser.watched(browser, wait_s=30, missing="/run/0000", bypass_csp=True) as page:
                tour = page_tour.Tour(page, url, at, shots, axe=True)
                walk(tour)
            faults += tour.faults
            print(f"{name}: {tour.views} views")
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults; the pictures are in {shots}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
