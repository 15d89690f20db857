"""What the web pages cost: python bench/serve.py [RUNS] [VIEWERS] [SECONDS]

Makes a store of RUNS runs (1000), serves it in a process of its own, and measures

* the first page of a server that has just been started,
* every page, ten times,
* VIEWERS (50) that each keep a page open that follows by itself, and open another every two
  seconds, for SECONDS (60): requests, errors, times, and what the server uses.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import median, quantiles

import httpx
import msgspec
import psutil

from whyidle.cluster.server.access import STATE_FOLDER, read_token
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.store.run_store import Store
from whyidle.testing import demo

PORT = 8497
BASE = f"http://127.0.0.1:{PORT}"
LOADER_MS = (0.0, 5.0, 42.0)


def make_store(folder: Path, count: int) -> Store:
    store, draw = Store(folder), random.Random(0)
    diagnoses = [diagnose_job([demo.job(loader_ms=ms).timeline()]) for ms in LOADER_MS]
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for number in range(count):
        diagnosis = draw.choice(diagnoses)
        script = draw.choice(["train.py", "finetune.py", "pretrain.py"])
        command = ["python", script, "--lr", str(draw.choice([0.1, 0.01]))]
        run = msgspec.structs.replace(diagnosis.run, command=command)
        one = msgspec.structs.replace(diagnosis, run=run)
        store.add_run(one, now=begin + timedelta(minutes=20 * number), named=True)
    return store


def start_server(store: Store) -> subprocess.Popen[bytes]:
    command = [
        *(sys.executable, "-m", "whyidle", "serve", "--quiet", "--store", str(store.root)),
        *("--listen", f"127.0.0.1:{PORT}"),
    ]
    process = subprocess.Popen(command)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with suppress(httpx.TransportError):
            if httpx.get(f"{BASE}/healthz").status_code == 200:
                return process
        time.sleep(0.05)
    raise SystemExit("the server did not start")


def measure_first(store: Store, client: httpx.Client) -> None:
    begin = time.perf_counter()
    process = start_server(store)
    started = time.perf_counter()
    client.get("/runs").raise_for_status()
    took = time.perf_counter() - started
    print(f"a new server starts in {started - begin:.2f} s, its first page takes {took:.3f} s")
    process.terminate()
    process.wait()


def measure_pages(store: Store, client: httpx.Client) -> None:
    run = store.find_run("last").id
    pages = (
        *("/", "/runs", "/runs?q=finetune&state=starved", "/runs?page=20", f"/runs/{run}"),
        *("/machine", "/api/runs"),
    )
    for path in pages:
        spans = []
        for _ in range(10):
            begin = time.perf_counter()
            answer = client.get(path)
            spans.append((time.perf_counter() - begin) * 1000)
        size = len(answer.content) / 1000
        print(f"{path[:40]:<41} {answer.status_code} median {median(spans):6.1f} ms {size:6.0f} kB")


def measure_browser(token: str) -> None:
    """The time from asking for a page to its load event in Chromium, where Playwright is."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  # not in every environment
    except ImportError:
        print("Playwright is not installed: no times of a browser")
        return
    with sync_playwright() as program:
        browser = program.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(extra_http_headers={"Authorization": f"Bearer {token}"})
        page.goto(f"{BASE}/healthz")  # the browser's own start
        for path in ("/runs", "/runs", "/", "/runs?page=20"):
            page.goto(f"{BASE}{path}")
            entry = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
            print(f"Chromium {path:<15} load event after {entry['loadEventEnd']:.0f} ms")
        browser.close()


async def view(
    client: httpx.AsyncClient, runs: list[str], until: float, spans: list[float], errors: list[str]
) -> None:
    draw = random.Random()
    await asyncio.sleep(draw.random() * 2)
    while time.monotonic() < until:
        path = draw.choice(["/", "/runs", "/runs?q=train", f"/runs/{draw.choice(runs)}"])
        begin = time.perf_counter()
        try:
            answer = await client.get(path)
            if answer.status_code != 200:
                errors.append(f"{path}: {answer.status_code}")
        except httpx.HTTPError as error:
            errors.append(f"{path}: {type(error).__name__}")
        spans.append((time.perf_counter() - begin) * 1000)
        await asyncio.sleep(2)


async def measure_viewers(store: Store, token: str, pid: int, viewers: int, seconds: float):
    runs, spans, errors = [entry.id for entry in store.list_runs()], [], []
    server = psutil.Process(pid)
    before, begin = server.cpu_times(), time.monotonic()
    until = begin + seconds
    async with httpx.AsyncClient(
        base_url=BASE,
        headers={"Authorization": f"Bearer {token}"},
        timeout=30,
        limits=httpx.Limits(max_connections=4 * viewers),
    ) as client:
        views = (view(client, runs, until, spans, errors) for _ in range(viewers))
        await asyncio.gather(*views)
    used, spent = server.cpu_times(), time.monotonic() - begin
    cores = (used.user + used.system - before.user - before.system) / spent
    cuts = quantiles(spans, n=100)
    print(
        f"{viewers} viewers, {spent:.0f} s: {len(spans)} pages, {len(errors)} errors, median "
        f"{median(spans):.0f} ms, 95% {cuts[94]:.0f} ms, 99% {cuts[98]:.0f} ms; the server uses "
        f"{cores:.2f} cores and {server.memory_info().rss / 1e6:.0f} MB"
    )
    for text in sorted(set(errors)):
        print(f"  {errors.count(text)} × {text}")


def main() -> None:
    given = [float(word) for word in sys.argv[1:]]
    count, viewers, seconds = (*given, *(1000, 50, 60)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder) / "store", int(count))
        token = read_token(store.root / STATE_FOLDER)
        head = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=BASE, headers=head, timeout=30) as client:
            measure_first(store, client)
            process = start_server(store)
            try:
                time.sleep(3)  # until the machine was looked at
                measure_pages(store, client)
                measure_browser(token)
                asyncio.run(measure_viewers(store, token, process.pid, int(viewers), seconds))
            finally:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    os.environ.pop("WHYIDLE_HOME", None)
    main()
