"""The page in a real browser: draws offline, asks for nothing, answers keys, mouse and clicks."""

import pytest
from browser import CHROMIUM, page

from whyidle.reports.html import render

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

VIEW = "document.querySelector('#timeline canvas')"


@pytest.fixture(scope="module")
def shown(nasty, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    path = folder / "why idle.html"
    path.write_text(render(nasty), encoding="utf-8")
    with page(folder / "profile") as driven:
        driven.open(path)
        driven.size(1280, 900)
        driven.frame()
        yield driven, path
        assert driven.complaints == []
        assert driven.requests == [path.as_uri()]


@pytest.fixture
def browser(shown):
    return shown[0]


def test_draws_without_network_or_complaint(shown):
    browser, path = shown
    assert browser.run("document.documentElement.dataset.drawn") == "1"
    assert browser.requests == [path.as_uri()]
    assert browser.complaints == []


def test_the_timeline_has_colour(browser):
    colours = browser.run(
        f"(() => {{ const c = {VIEW}; const d = c.getContext('2d').getImageData(0, 0, c.width, "
        "c.height).data; const s = new Set(); for (let i = 0; i < d.length; i += 4) "
        "s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size; })()"
    )
    assert colours > 8


def corner(browser):
    return browser.run(f"(b => [b.x, b.y])({VIEW}.getBoundingClientRect())")


def picture(browser):
    return browser.run(f"{VIEW}.toDataURL()")


def test_keys_zoom_and_go_back(browser):
    browser.run("document.getElementById('timeline').focus()")
    whole = picture(browser)
    browser.key("+")
    nearer = picture(browser)
    browser.key("ArrowRight")
    beside = picture(browser)
    browser.key("0")
    assert len({whole, nearer, beside}) == 3
    assert picture(browser) == whole


def test_the_next_lost_stretch_is_told(browser):
    browser.run("document.getElementById('timeline').focus()")
    browser.key("n")
    told = browser.run("document.getElementById('tip').textContent")
    assert told.startswith("Host · lost time")
    assert told.endswith("800 µs · 8.0% of the step\nat 0 s")
    browser.key("Escape")
    browser.key("0")
    assert browser.run("document.getElementById('tip').hidden")


def test_pointing_tells_the_name_as_text(browser, nasty_text):
    browser.run(f"{VIEW}.scrollIntoView()")
    box = browser.run(
        f"(() => {{ const b = {VIEW}.getBoundingClientRect(); return [b.x, b.y]; }})()"
    )
    browser.mouse("mouseMoved", box[0] + 20, box[1] + 45)
    told = browser.run("document.getElementById('tip').textContent")
    assert nasty_text in told
    assert browser.run("document.querySelectorAll('#tip *').length") == 0


def test_dragging_moves_and_wheel_with_control_zooms(browser):
    browser.run(f"{VIEW}.scrollIntoView()")
    left, top = corner(browser)
    x, y = left + 300, top + 50
    whole = picture(browser)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400, modifiers=2)
    nearer = picture(browser)
    browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseMoved", x + 80, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x + 80, y, button="left", clickCount=1)
    assert len({whole, nearer, picture(browser)}) == 3
    browser.run("document.querySelector('[data-zoom=all]').click()")
    browser.frame()


def test_the_heat_map_tells_numbers(browser):
    browser.run("document.getElementById('heat').scrollIntoView()")
    x, y = browser.run(
        "(() => { const b = document.querySelector('#heat svg').getBoundingClientRect(); "
        "return [b.right - 30, b.y + 10]; })()"
    )
    browser.mouse("mouseMoved", x, y)
    told = browser.run("document.querySelector('#heat .tip').textContent")
    assert told.startswith("rank 0, step 5\nCompute 35.0%")


def test_light_and_dark(browser):
    ground = "getComputedStyle(document.body).backgroundColor"
    before = browser.run(ground)
    browser.run("document.getElementById('theme').click()")
    after = browser.run(ground)
    browser.run("document.getElementById('theme').click()")
    assert before != after
    assert browser.run(ground) == before


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out(browser, width):
    browser.size(width, 800)
    browser.frame()
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.size(1280, 900)


def test_without_scripts_it_still_says_everything(browser, shown):
    _, path = shown
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.load("Page.reload")
    browser.requests[:] = [path.as_uri()]
    assert browser.run("document.documentElement.dataset.drawn") is None
    tall = "document.querySelector('#timeline svg').getBoundingClientRect().height"
    assert browser.run(tall) > 50
    assert browser.run("document.querySelectorAll('#heat svg').length") == 1
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
