"""`whyidle serve` as people use it: a real server, a real job and a real browser."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from fleets import write_fleet

from imagined_jobs import healthy, starved_by_loader
from tests.cluster.server.conftest import of_command
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.store.run_store import Store

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

JOB = """
import time, torch
model = torch.nn.Linear(64, 8)
update = torch.optim.SGD(model.parameters(), 0.1)
end = time.monotonic() + float(__import__("sys").argv[1])
while time.monotonic() < end:
    time.sleep(0.01)
    loss = model(torch.randn(16, 64)).square().mean()
    update.zero_grad(); loss.backward(); update.step()
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    for make, script in ((healthy, "healthy.py"), (starved_by_loader, "<script>alert(1)</script>")):
        store.add_run(of_command(diagnose_job([make().timeline()]), "python", script), named=True)
    return store


@pytest.fixture
def serve(store: Store, start, tmp_path: Path) -> Callable[..., tuple[str, subprocess.Popen]]:
    """Starts the server; returns the address that it prints, and its process."""

    def begin(*more: str) -> tuple[str, subprocess.Popen]:
        out = tmp_path / f"serve-{time.monotonic()}.out"
        with out.open("wb") as file:
            process = start(
                *(sys.executable, "-u", "-m", "whyidle", "serve", "--store", str(store.root)),
                *("--listen", "127.0.0.1:8487", *more),
                stdout=file,
            )
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if found := re.search(r"http://\S+", out.read_text()):
                try:
                    urlopen("http://127.0.0.1:8487/healthz", timeout=5).close()
                except OSError:
                    pass
                else:
                    return found[0], process
            time.sleep(0.1)
        raise AssertionError(out.read_text())

    return begin


@pytest.fixture
def browser() -> Iterator:
    with playwright.sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def sign_in(page, address: str) -> None:
    page.goto(address)
    page.wait_for_url("http://127.0.0.1:8487/")


@needs_chromium
def test_every_page_in_light_and_dark_on_desktop_and_phone(serve, browser, store, tmp_path):
    """Nothing is blocked by the content policy, no page is wider than the screen, no markup of a
    name becomes an element."""
    fleet = write_fleet(tmp_path / "fleet.json")
    address, process = serve("--fleet", str(fleet))
    first, second = (entry.id for entry in store.list_runs())
    paths = ("/", "/runs", f"/runs/{second}", "/machine", "/fleet", f"/jobs/{first}")
    context = browser.new_context()
    sign_in(context.new_page(), address)
    cookies = context.cookies()
    assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Lax")]
    for scheme in ("light", "dark"):
        for width in (1200, 390):
            look = browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": 844}
            )
            look.add_cookies(cookies)
            page, complaints = look.new_page(), []
            page.on("console", lambda one, seen=complaints: seen.append(one.text))
            page.on("pageerror", lambda one, seen=complaints: seen.append(str(one)))
            page.on("dialog", lambda one, seen=complaints: seen.append(one.message))
            for path in paths:
                answer = page.goto(f"http://127.0.0.1:8487{path}")
                assert answer.status == 200, path
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (path, width, wide)
            assert complaints == []
            look.close()
    page = context.new_page()
    page.goto("http://127.0.0.1:8487/")
    process.send_signal(signal.SIGINT)  # while a page follows
    assert process.wait(15) in (130, -signal.SIGINT)
    assert "Traceback" not in "".join(path.read_text() for path in tmp_path.glob("*.log"))


@needs_chromium
def test_the_token_signs_in(serve, browser):
    address, _ = serve()
    page = browser.new_page()
    assert page.goto("http://127.0.0.1:8487/runs").status == 401
    page.get_by_label("Token").fill(address.rpartition("=")[2])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Runs").wait_for()
    assert page.url == "http://127.0.0.1:8487/runs"


@needs_chromium
def test_a_page_follows_a_job_and_ends_with_it(serve, browser, store, start, tmp_path):
    address, _ = serve()
    (tmp_path / "job.py").write_text(JOB)
    start(
        *(sys.executable, "-m", "whyidle", "run", "-q", "--no-live", "--store", str(store.root)),
        *(sys.executable, "job.py", "8"),
    )
    until = time.monotonic() + 30
    while len(store.list_runs()) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    run = store.list_runs()[-1].id
    page = browser.new_page()
    sign_in(page, address)
    page.goto(f"http://127.0.0.1:8487/jobs/{run}")
    expect = playwright.expect
    steps = page.locator("#steps")
    expect(steps).to_be_visible(timeout=40_000)
    before = steps.text_content()
    expect(steps).not_to_have_text(before, timeout=10_000)
    page.get_by_text("Where the step goes").wait_for(timeout=40_000)
    expect(page.locator("#status")).to_have_text("ended", timeout=60_000)
    expect(page.locator(".stream")).to_have_text("ended")
    page.get_by_role("link", name="See its report").click()
    page.get_by_role("heading", name="Where the step goes").wait_for()
