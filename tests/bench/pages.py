"""How fast the pages are, over a database as a busy year leaves it.

    python tests/bench/pages.py [--database sqlite|postgresql] [--small] [--times 15] [--keep FILE]

Seeds a database (1,000,000 results, 5,000 runs, 200 backends; ``--small``: a twentieth), starts one web process over
it, and prints for each page: the server's time over loopback (median and worst of ``--times``, after one to warm up),
CPU time of the web process (what it comes to on a machine that does nothing else), bytes of HTML, first contentful
paint in Chromium (median of 5 loads with an empty cache), and gzipped script bytes. Then 200 readers watch runs by
server-sent events on that one process: how long until all have the present state, how long until all have heard of a
change, and what a page takes meanwhile. ``--keep``: an SQLite file to keep, and to use again when it is there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import Engine, func, insert, select, update

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import page_seed
import private_postgres

from relay.artifacts import Artifacts
from relay.store.db import migrate, open_engine
from relay.store.schema import dispatch, result, shard

TARGET_MS = 100.0
WATCHERS = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--no-browser", action="store_true")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if args.database == "sqlite":
            url = f"sqlite:///{args.keep.absolute() if args.keep else folder / 'pages.sqlite3'}"
        else:
            if private_postgres.binaries() is None:
                print(private_postgres.NOT_THERE)
                return 2
            url = stack.enter_context(private_postgres.private_cluster()).new_database()
        objects = args.keep.absolute().with_name(f"{args.keep.name}.artifacts") if args.keep else folder / "artifacts"
        seeded = prepared(url, page_seed.SMALL if args.small else page_seed.Size(), args.keep, objects)
        base, process = stack.enter_context(serving(url, folder, objects))
        slow = pages(base, seeded, args.times, process.pid)
        if not args.no_browser:
            painted(base, seeded)
        watched(base, seeded, url, process)
        return 1 if slow else 0


def prepared(url: str, size: page_seed.Size, keep: Path | None, objects: Path) -> page_seed.Seeded:
    engine = open_engine(url)
    fresh = not (keep and keep.exists())
    migrate(engine)
    began = time.monotonic()
    if fresh:
        seeded = page_seed.seed(engine, size, time.time(), Artifacts(str(objects)))
        print(f"seeded {size.results:,} results, {size.runs:,} runs, {size.backends} backends "
              f"on {engine.dialect.name} in {time.monotonic() - began:.1f} s")  # fmt: skip
    else:
        seeded = page_seed.again(size, keep_time(engine, size))
    engine.dispose()
    return seeded


def keep_time(engine: Engine, size: page_seed.Size) -> float:
    """The moment a kept database was seeded for."""
    with engine.connect() as conn:
        newest = conn.execute(select(func.max(dispatch.c.created_at))).scalar_one()
    return float(newest) + 60 + size.days * page_seed.DAY / size.runs


@contextlib.contextmanager
def serving(url: str, folder: Path, objects: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    allowlist = folder / "allowlist.yml"
    allowlist.write_text("L4:\n  - torch-spyre/torch-spyre: {executor: workers, device: spyre}\n")
    port = _free_port()
    env = {
        **os.environ, "RELAY_DATABASE_URL": url, "RELAY_DATA_DIR": str(folder), "RELAY_PORT": str(port),
        "RELAY_ALLOWLIST": str(allowlist), "RELAY_READS_PER_MINUTE": "1000000", "RELAY_READS_BURST": "1000000",
        "RELAY_ARTIFACTS_URL": str(objects),
    }  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "relay.web"], env=env, cwd=Path(__file__).parents[2])
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"{base}/healthz", trust_env=False).status_code == 200:
                    break
            time.sleep(0.1)
        yield base, process
    finally:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def paths(seeded: page_seed.Seeded) -> dict[str, str]:
    """Every page, by a name for the table."""
    return {
        "/": "/",
        "/crcr": "/crcr",
        "/crcr/{backend}": f"/crcr/{seeded.backend}",
        "/crcr/{our own}": "/crcr/torch-spyre/torch-spyre",
        "/pr/{n}": f"/pr/{seeded.pr}",
        "/run/{id}": f"/run/{seeded.run}",
        "/run/{id} failed": f"/run/{seeded.run}?outcome=failed",
        "/run/{id} in progress": f"/run/{seeded.open_run}",
        "/run/{id}/log": seeded.log,
        "/test/{id}": f"/test/{seeded.test}",
        "/quality": "/quality",
        "/upgrade": "/upgrade",
        "/upgrade/{pair}": seeded.upgrade,
        "/queues": "/queues",
        "/config": "/config",
        "/search PR": f"/search?q={seeded.pr}",
        "/search sha": f"/search?q={seeded.sha[:12]}",
        "/search test": "/search?q=test_add",
        "/search backend": "/search?q=lab-0",
        "/search nothing": "/search?q=nosuchthing",
        "/about": "/about",
        "badge": f"/badge/{seeded.backend}.svg",
        "feed of a backend": f"/crcr/{seeded.backend}.atom",
        "feed of a PR": f"/pr/{seeded.pr}.atom",
    }


def pages(base: str, seeded: page_seed.Seeded, times: int, pid: int) -> list[str]:
    print(f"\n{'page':26} {'median':>9} {'worst':>9} {'CPU':>9} {'bytes':>9}")
    slow = []
    with httpx2.Client(base_url=base, trust_env=False, timeout=120) as client:
        for name, path in paths(seeded).items():
            answer = client.get(path)
            took, cpu = [], _cpu(pid)
            for _ in range(times):
                began = time.perf_counter()
                answer = client.get(path)
                took.append((time.perf_counter() - began) * 1000)
            median, spent = statistics.median(took), 1000 * (_cpu(pid) - cpu) / times
            note = "" if answer.status_code in (200, 303) else f"  HTTP {answer.status_code}"
            if median > TARGET_MS or note:
                slow.append(name)
            print(f"{name:26} {median:6.1f} ms {max(took):6.1f} ms {spent:6.1f} ms {len(answer.content):9,}{note}")
    return slow


def painted(base: str, seeded: page_seed.Seeded) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("NOT RUN: no Chromium here")
        return
    print(f"\n{'page':26} {'first paint':>12} {'scripts, gzipped':>18}")
    args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=args)
        for name, path in paths(seeded).items():
            if path.endswith((".svg", ".atom")):
                continue
            paints, weight = [], 0
            for _ in range(5):
                context = browser.new_context()
                page = context.new_page()
                page.goto(base + path, wait_until="load")
                paints.append(_first_paint(page))
                weight = page.evaluate(
                    "performance.getEntriesByType('resource').filter(r => r.name.endsWith('.js'))"
                    ".reduce((sum, r) => sum + r.encodedBodySize, 0)"
                )
                context.close()
            print(f"{name:26} {statistics.median(paints):9.0f} ms {weight:18,}")
        browser.close()


def _first_paint(page: Any) -> float:
    """Milliseconds. The debugger asks again and again: a function to wait for is refused by the pages' policy."""
    for _ in range(200):
        found = page.evaluate("performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)")
        if found:
            return float(found[0])
        page.wait_for_timeout(20)
    raise TimeoutError(f"{page.url} was never painted")


def watched(base: str, seeded: page_seed.Seeded, url: str, process: subprocess.Popen[bytes]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    asyncio.run(_watched(base, seeded, url, process.pid))


async def _watched(base: str, seeded: page_seed.Seeded, url: str, pid: int) -> None:
    engine = open_engine(url)
    with engine.connect() as conn:
        mine = select(dispatch.c.id).where(dispatch.c.state == "running", dispatch.c.executor == "workers")
        runs = list(conn.execute(mine.limit(3)).scalars())
        first = conn.execute(select(shard).where(shard.c.dispatch_id == runs[0]).limit(1)).one()
    heard = [0] * WATCHERS
    limits = httpx2.Limits(max_connections=WATCHERS + 20, max_keepalive_connections=WATCHERS + 20)
    async with httpx2.AsyncClient(base_url=base, trust_env=False, timeout=60, limits=limits) as client:

        async def watch(n: int) -> None:
            async with client.stream("GET", f"/run/{runs[n % len(runs)]}/events") as answer:
                assert answer.status_code == 200, answer.status_code
                async for line in answer.aiter_lines():
                    if line == "":
                        heard[n] += 1

        began = time.perf_counter()
        tasks = [asyncio.create_task(watch(n)) for n in range(WATCHERS)]
        await _until(lambda: all(heard), tasks)
        print(f"\n{WATCHERS} watchers of {len(runs)} runs on one process: all have the present state after "
              f"{time.perf_counter() - began:.2f} s")  # fmt: skip
        before, cpu = list(heard), _cpu(pid)
        quiet = time.perf_counter()
        await asyncio.sleep(5)
        print(f"nothing happens: {100 * (_cpu(pid) - cpu) / (time.perf_counter() - quiet):.0f} % of a core")

        def change() -> None:
            with engine.begin() as conn:
                row = {"dispatch_id": runs[0], "shard_id": first.id, "side": "head", "test": seeded.test,
                       "variant": f"new-{time.time()}", "attempt": 0, "mode": "mandatory_success", "outcome": "failed",
                       "seconds": 0.1, "fence": 1, "recorded_at": time.time(), "message": "news"}  # fmt: skip
                conn.execute(insert(result).values(**row))
                conn.execute(update(dispatch).where(dispatch.c.id.in_(runs)).values(summary=f"news {time.time()}"))

        before = list(heard)
        await asyncio.to_thread(change)
        began = time.perf_counter()
        took = []
        await _until(lambda: all(now > then for now, then in zip(heard, before, strict=True)), tasks)
        print(f"a change: all have heard of it after {time.perf_counter() - began:.2f} s")
        for _ in range(20):
            asked = time.perf_counter()
            await client.get(f"/run/{seeded.run}")
            took.append((time.perf_counter() - asked) * 1000)
        print(f"a run's page meanwhile: {statistics.median(took):.0f} ms (worst {max(took):.0f} ms)")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    engine.dispose()


async def _until(true: Any, tasks: list[Any], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not true():
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception():
                raise task.exception()
        if time.monotonic() > ends:
            raise TimeoutError("not all watchers heard")
        await asyncio.sleep(0.005)


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
