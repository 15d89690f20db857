"""The page says everything without a script, carries nothing foreign, and stays small."""

import re
from html.parser import HTMLParser

import msgspec
import pytest
from msgspec.structs import replace

from whyidle.model.documents.rank_tables import RankGroupRow
from whyidle.reports import markdown
from whyidle.reports._html.element import Markup, join_children, script_text, tag
from whyidle.reports.html import render

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that every element is closed."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.scripts = []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        (self.scripts if inside in ("script", "style") else self.words).append(data)


@pytest.fixture(scope="module")
def page(full):
    return Reader(render(full))


def test_every_section_is_there(page):
    ids = {value for _, key, value in page.attributes if key == "id"}
    assert ids >= {
        "attribution",
        "findings",
        "picture",
        "steps",
        "ranks",
        "kernels",
        "trials",
        "abstentions",
        "coverage",
    }


def test_all_findings_are_said_and_small_ones_folded(page):
    said = " ".join(page.words)
    assert "14 causes found" in said
    assert "1 minor finding (under 3%)" in said
    assert page.tags.count("article") == 16  # and a trial
    assert "same numbers" in said
    assert "lowers numeric precision" in said


def test_one_long_step_does_not_flatten_the_others(full):
    """The 95th percentile is a quarter of what the strip is high."""
    told = msgspec.structs.replace(full.steps, p95_s=0.012)
    page = Reader(render(msgspec.structs.replace(full, steps=told)))
    bars = [
        value
        for tag, key, value in page.attributes
        if tag == "span" and key == "style" and value.startswith("height:") and "width" in value
    ]
    heights = [float(value.split("height:")[1].split("px")[0]) for value in bars]
    assert max(heights[1:]) == pytest.approx(max(heights) / 4, rel=0.01)
    assert " (bar cut)" in " ".join(page.words)


def test_nothing_comes_from_elsewhere(full):
    page = render(full)
    read = Reader(page)
    assert not [a for a in read.attributes if a[1] in ("src", "href", "srcset", "action")]
    assert not re.search(r"url\(|@import|//[a-z]+\.[a-z]", page)
    policies = [value for _, key, value in read.attributes if key == "content"]
    assert policies[0].startswith("default-src 'none'")


def test_names_of_a_recording_never_become_markup(nasty, full, nasty_text):
    plain, read = Reader(render(full)), Reader(render(nasty))
    assert read.tags == plain.tags
    assert [a[:2] for a in read.attributes] == [a[:2] for a in plain.attributes]
    assert nasty_text.replace("\x00", "\ufffd") in read.words
    assert len(read.scripts) == len(plain.scripts)


def test_the_embedded_data_cannot_end_its_element(nasty, nasty_text):
    page = render(nasty)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    data = msgspec.json.decode(found[1])
    assert nasty_text in data["timeline"]["labels"]
    assert not re.search(r"[<>&\u2028]", found[1])


def test_the_same_bytes_each_time(full, build):
    assert render(full) == render(build())


def test_a_line_of_code_in_a_heading_stays_together_and_so_do_number_and_unit(full):
    verdict = replace(full.verdict, headline="No workers: 5 ms at train.py:33 (x = f(y[i]) / 255)")
    shown = render(replace(full, verdict=verdict))
    assert 'train.py:33 <span class="whole">(x = f(y[i]) / 255)</span></h1>' in shown
    assert "10.6\xa0ms" in shown


def test_key_numbers_are_told_once(full):
    told = " ".join(Reader(render(full)).words)
    assert "steps detected by" in told
    assert "5 steps of" not in told


@pytest.mark.parametrize("count", [0, 1])
def test_few_findings(build, finding, count):
    found = [finding()][:count]
    state = "starved" if count else "saturated"
    read = Reader(render(build(findings=found, state=state)))
    said = " ".join(read.words)
    assert ("1 cause found" in said) == bool(count)
    assert ("No cause found" in said) == (not count)


def test_no_clean_bill_of_health_where_the_recording_does_not_tell(build):
    said = " ".join(Reader(render(build(findings=[], state="inconclusive"))).words)
    assert "No cause proven" in said
    assert "There may be causes that this recording cannot prove" in said


def test_what_is_missing_leaves_no_empty_section(full):
    detail = msgspec.structs.replace(
        full.detail, picture=None, kernels=[], groups={}, reasons=[], step_times_s=[], steady=[]
    )
    steps = msgspec.structs.replace(full.steps, mean_s=None, p50_s=None)
    bare = msgspec.structs.replace(
        full, detail=detail, steps=steps, abstentions=[], trials=[], findings=[]
    )
    ids = {value for _, key, value in Reader(render(bare)).attributes if key == "id"}
    assert not ids & {"picture", "steps", "kernels", "trials", "abstentions"}


def test_a_finding_is_a_line_and_a_card(full):
    finding = full.findings[0]
    assert str(finding).startswith(f"{finding.severity.upper()}: {finding.headline}")
    assert "\n" not in str(finding)
    place = msgspec.structs.replace(finding, headline="a <b> c")
    assert "a &lt;b&gt; c" in place._repr_html_()


def test_one_rank_has_no_heat_map(build):
    assert 'id="heat"' not in render(build(ranks=1))


def test_many_ranks_stay_small(build, full):
    many = build(ranks=128)
    rows = [msgspec.structs.replace(row, steps=row.steps * 10) for row in many.detail.ranks]
    detail = msgspec.structs.replace(many.detail, ranks=rows)
    page = render(msgspec.structs.replace(many, detail=detail))
    assert len(page.encode()) < 800_000


def test_a_late_rank_stands_out_and_groups_are_tables(build):
    many = build(ranks=64)
    rows = [replace(row, lateness_s=0.0, path_ratio=0.0) for row in many.detail.ranks]
    rows[41] = replace(rows[41], lateness_s=0.2 * rows[41].step_s, path_ratio=0.7)
    group = RankGroupRow(
        kind="stage",
        name="3",
        ranks=16,
        step_s=0.1,
        attribution=rows[0].attribution,
        lateness_s=0.0,
        waiting=0.25,
        path_ratio=0.1,
    )
    calm = replace(many, detail=replace(many.detail, ranks=rows[:41]))
    late = replace(many, detail=replace(many.detail, ranks=rows, rank_groups=[group]))
    assert 'class="late"' not in render(calm)
    page = render(late)
    assert page.count('<rect x="-1" y="') == 1
    assert "rank 41 (the others wait" in page
    assert "70% of the critical path" in page
    assert "Ranks by pipeline stage" in page


def test_elements_escape_by_type():
    assert tag("p", "<b>", Markup("<i></i>"), None, 3, ["&"]) == "<p>&lt;b&gt;<i></i>3&amp;</p>"
    assert (
        tag("a", class_='x"y', data_a=None, open=True, b=False) == '<a class="x&quot;y" open></a>'
    )
    assert tag("meta", name="n") == '<meta name="n">'
    assert join_children("a\x00b") == "a\ufffdb"
    assert script_text('"</script>&\u2029"') == '"\\u003c/script\\u003e\\u0026\\u2029"'


def test_which_of_several_jobs_it_is_about_is_said(build):
    told = build()
    named = msgspec.structs.replace(told.run, job="train.py --lr 1 (process 12)")
    told = msgspec.structs.replace(told, run=named)
    assert "train.py --lr 1 (process 12)" in render(told)
    assert "train.py --lr 1 (process 12)" in markdown.render(told)
