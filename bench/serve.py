"""What the web pages cost: python bench/serve.py [RUNS] [VIEWERS] [SECONDS]

Makes a store of RUNS runs (1000), serves it in a process of its own, and measures

* the first page of a server that has just been started, with and without an index,
* every page, ten times,
* VIEWERS (50) that each keep a page open that follows by itself, and open another every two
  seconds, for SECONDS (60): requests, errors, times, and what the server uses,
* a client's pages beside four uploads that drip and 1,100 half-open requests of twelve addresses,
  for a third of SECONDS, and without them.
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

from whyidle.cluster.server.access import AccessList
from whyidle.cluster.server.site import ACCESS_FILE, STATE_FOLDER
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
    first, second = (entry.id for entry in store.list_runs()[-2:])
    pages = (
        *("/", "/runs", "/runs?q=finetune&state=starved", "/runs?page=20", f"/runs/{first}"),
        *(f"/compare?run={first}&run={second}", "/machine", "/api/runs"),
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


async def hold_half_open(number: int, until: float) -> None:
    """A request whose head does not end, again when it is cut off."""
    address = f"127.0.0.{2 + number % 12}"
    while time.monotonic() < until:
        with suppress(OSError, asyncio.TimeoutError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", PORT, local_addr=(address, 0)
            )
            writer.write(b"GET /runs HTTP/1.1\r\nHost:")
            await asyncio.wait_for(reader.read(1), max(0.1, until - time.monotonic()))
            writer.close()
        await asyncio.sleep(5)


async def drip_upload(number: int, token: str, until: float) -> None:
    """An upload of which a byte comes every tenth of a second."""
    with suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", PORT)
        head = f"PUT /api/runs/20260101-000000-00000{number} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += f"Authorization: Bearer {token}\r\nContent-Length: 1000000\r\n\r\n"
        writer.write(head.encode())
        while time.monotonic() < until:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.1)
        writer.close()


async def abuse(token: str, half_open: int, drips: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    await asyncio.gather(
        *(hold_half_open(number, until) for number in range(half_open)),
        *(drip_upload(number, token, until) for number in range(drips)),
    )


async def measure_abuse(token: str, seconds: float) -> None:
    tails = []
    for half_open, drips in ((0, 0), (1100, 4)):
        until = time.monotonic() + seconds
        others = subprocess.Popen(  # whose work must not delay the client's
            [sys.executable, __file__, "abuse", token, f"{half_open}", f"{drips}", f"{seconds}"]
        )
        await asyncio.sleep(3)
        spans, refused = [], 0
        head = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=BASE, headers=head, timeout=30) as client:
            while time.monotonic() < until:
                begin = time.perf_counter()
                try:
                    refused += (await client.get("/runs")).status_code != 200
                except httpx.HTTPError:
                    refused += 1
                spans.append((time.perf_counter() - begin) * 1000)
                await asyncio.sleep(0.05)
        others.wait()
        tails.append(quantiles(spans, n=100)[98])
        print(
            f"{half_open} half-open requests, {drips} dripping uploads: {len(spans)} pages, "
            f"{refused} refused, median {median(spans):.0f} ms, 99% {tails[-1]:.0f} ms"
        )
    print(f"99% beside them: {tails[1] / tails[0]:.2f} times that without")


def main() -> None:
    given = [float(word) for word in sys.argv[1:]]
    count, viewers, seconds = (*given, *(1000, 50, 60)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder) / "store", int(count))
        token = AccessList(store.root / STATE_FOLDER / ACCESS_FILE).add_token("bench")
        head = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=BASE, headers=head, timeout=30) as client:
            measure_first(store, client)
            process = start_server(store)
            try:
                time.sleep(3)  # until the machine was looked at
                measure_pages(store, client)
                measure_browser(token)
                asyncio.run(measure_viewers(store, token, process.pid, int(viewers), seconds))
                asyncio.run(measure_abuse(token, seconds / 3))
            finally:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    os.environ.pop("WHYIDLE_HOME", None)
    if sys.argv[1:2] == ["abuse"]:
        asyncio.run(abuse(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])))
    else:
        main()
