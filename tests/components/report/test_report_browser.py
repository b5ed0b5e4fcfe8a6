"""The page in a real browser: it sorts, filters, searches, compares, points, prints, and runs nobody's words."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_run import make_dialogues, write_run, write_transcripts
from test_report_page import RUN, load, with_words

from benchmarks.chromium import Chromium, installed
from rlver.components.report.material import load_material
from rlver.components.report.page import write_report
from rlver.tasks.stages.report import panels_of_studies

pytestmark = pytest.mark.slow

READY = "document.documentElement.dataset.ready === 'true'"
COUNT = "document.querySelector('.count').textContent"
PANE = "[...document.querySelectorAll('.pane .dialogue .what b')].map((one) => one.textContent)"
CLASSES = {f"p{number:03d}": ("negative", "passive", "avoidant")[number % 3] for number in range(40)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    command = installed()
    if command is None:
        pytest.skip("needs chromium")
    with Chromium(command) as page:
        yield page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = write_run(tmp_path_factory.mktemp("run"), personas=20, trained=("grpo-think", "ppo-think"))
    folders = (root / name for name in ("transcripts", "metrics", "logs"))
    write_report(load_material(*folders, CLASSES), RUN, root / "reports", panels_of_studies())
    return (root / "reports" / "index.html").as_uri()


@pytest.fixture
def page(browser: Chromium, address: str) -> Chromium:
    browser.events.clear()
    browser.look()
    browser.open(address, READY)
    return browser


def choose(page: Chromium, name: str, value: str) -> None:
    page.run(
        f"(() => {{ const one = document.querySelector('.filters [name={name}]'); one.value = '{value}';"
        "one.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    page.wait("document.getElementById('browser').ariaBusy === 'false'")


def test_a_heading_sorts_by_mouse_and_keyboard_and_says_so(page: Chromium):
    order = "[...document.querySelectorAll('[data-table=results] tbody tr')].map((row) => row.cells[0].dataset.value)"
    sort = "document.querySelectorAll('[data-table=results] thead th')[{}]"
    scores = "[...document.querySelectorAll('[data-table=results] tbody tr')].map((row) => Number(row.cells[1].dataset.value))"
    page.run(f"{sort.format(1)}.querySelector('button').click()")
    assert page.run(f"{sort.format(1)}.ariaSort") == "descending"
    assert page.run(scores) == sorted(page.run(scores), reverse=True) and page.run(order)[-1] == "base"
    page.run(f"{sort.format(1)}.querySelector('button').focus()")
    page.press("Enter")
    assert page.run(f"{sort.format(1)}.ariaSort") == "ascending" and page.run(order)[0] == "base"
    page.run(f"{sort.format(0)}.querySelector('button').click()")
    assert page.run(order) == ["base", "grpo-think", "ppo-think"]
    assert page.run(f"{sort.format(1)}.ariaSort") == "none"


def test_what_was_not_measured_sorts_last_both_ways(page: Chromium):
    column = "document.querySelectorAll('[data-table=results] thead th')[2].querySelector('button')"  # the difference to the base
    last = "[...document.querySelectorAll('[data-table=results] tbody tr')].at(-1).cells[0].dataset.value"
    for _ in range(2):
        page.run(f"{column}.click()")
        assert page.run(last) == "base"


def test_all_dialogues_are_counted_but_only_those_in_view_are_made(page: Chromium):
    assert page.run(COUNT) == "61 of 61 dialogues"
    assert 5 < page.run("document.querySelectorAll('.row').length") < 40
    page.run("document.querySelector('.list').scrollTop = 1e6")
    page.wait("document.querySelector('[aria-posinset=\"61\"]') !== null")


def test_filters_and_search_narrow_the_list_together(page: Chromium):
    choose(page, "variant", "grpo-think")
    assert page.run(COUNT) == "20 of 61 dialogues"
    choose(page, "need", "Deep empathy")
    assert page.run(COUNT) == "3 of 61 dialogues"  # of twenty personas with eight needs, the 4th, 12th and 20th
    choose(page, "persona_class", "Negative")
    assert page.run(COUNT) == "1 of 61 dialogues"  # the 4th: 3 is a multiple of 3, 11 and 19 are not
    choose(page, "words", "NO SUCH WORD")
    assert page.run(COUNT) == "0 of 61 dialogues" and page.run(PANE) == []
    choose(page, "words", "")
    assert page.run(COUNT) == "1 of 61 dialogues"


def test_the_search_reads_what_was_said_thought_and_felt(page: Chromium):
    for words in ("grandmother's PIANO", "name it, do not fix it", "so nobody listens here", "p007", "let down"):
        choose(page, "words", words.replace("'", "\\'"))
        assert 0 < int(page.run(COUNT).split()[0]) <= 61, words
    choose(page, "words", "p007")
    assert page.run(COUNT) == "3 of 61 dialogues"


def test_outcomes_can_be_chosen_and_the_failed_one_shows_its_reason(page: Chromium):
    choose(page, "outcome", "unscorable")
    assert page.run(COUNT) == "1 of 61 dialogues"
    assert "1590 of 1600 tokens" in page.run("document.querySelector('.pane').innerText")


def test_the_same_persona_stands_beside_with_the_base_on_the_left(page: Chromium):
    choose(page, "variant", "ppo-think")
    personas = "[...document.querySelectorAll('.pane [data-slot=persona]')].map((one) => one.textContent)"
    assert page.run(PANE) == ["base", "ppo-think"]
    assert page.run(personas) == ["p000", "p000"]
    page.run("document.querySelector('.list').focus()")
    page.press("ArrowDown")
    page.wait(f"{personas}.join() === 'p001,p001'")
    assert page.run("document.querySelector('.row[aria-selected=true]').getAttribute('aria-posinset')") == "2"
    choose(page, "beside", "grpo-think")
    assert page.run(PANE) == ["grpo-think", "ppo-think"]
    choose(page, "beside", "")
    assert page.run(PANE) == ["ppo-think"]


def test_a_change_of_emotion_opens_to_its_reasons(page: Chromium):
    reasons = "document.querySelector('.pane .appraisal .reasons')"
    assert not page.run(f"{reasons}.checkVisibility()")
    page.run("document.querySelector('.pane .appraisal summary').click()")
    assert page.run(f"{reasons}.checkVisibility()")
    assert "Trait: suspicious" in page.run(f"{reasons}.innerText")


def test_a_single_dialogue_is_drawn_under_the_pointer_and_opens_at_a_press(page: Chromium):
    plot = "document.querySelector('[data-frame] [data-variant=\"ppo-think\"] svg')"
    page.run(f"{plot}.scrollIntoView({{block: 'center'}})")
    box = page.run(f"(() => {{ const one = {plot}.getBoundingClientRect(); return [one.x, one.y, one.width, one.height]; }})()")
    page.point(box[0] + box[2] * 0.6, box[1] + box[3] * 0.4)
    page.wait(f"{plot}.querySelector('.pointed polyline') !== null")
    said = page.run("document.querySelector('.pointed-at').textContent")
    assert said.startswith("ppo-think with p0") and "40 →" in said
    page.point(box[0] + box[2] * 0.6, box[1] + box[3] * 0.4, press=True)
    page.wait(f"document.querySelector('.pane [data-slot=persona]').textContent === '{said.split()[2].rstrip(':')}'")
    assert page.run(PANE)[-1] == "ppo-think"


def test_the_best_dialogue_of_a_policy_is_one_press_away(page: Chromium):
    page.run("document.querySelector('[data-opens][data-of=\"grpo-think\"]').click()")
    page.wait(f"{PANE}.at(-1) === 'grpo-think'")


def test_dark_is_dark_and_light_is_light(page: Chromium):
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.run(paper) == "rgb(255, 255, 255)"
    page.look(dark=True)
    assert page.run(paper) == "rgb(20, 24, 29)"
    page.look(dark=True, media="print")
    assert page.run(paper) == "rgb(255, 255, 255)"  # paper is white


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_width_scrolls_sideways_as_a_whole(page: Chromium, width: int):
    page.look(width=width)
    page.wait("true")
    assert page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_on_a_phone_every_table_scrolls_in_a_box_of_its_own(page: Chromium):
    page.look(width=390)
    page.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    tables = "[...document.querySelectorAll('table')].filter(one => one.checkVisibility())"
    assert page.run(f"{tables}.length") > 5
    cut = f"{tables}.filter(one => one.scrollWidth > one.parentElement.clientWidth + 1 && getComputedStyle(one.parentElement).overflowX !== 'auto')"
    assert page.run(f"{cut}.map(one => one.dataset.table || one.className)") == []


def test_paper_gets_the_results_and_a_pair_but_no_browser(page: Chromium):
    page.look(media="print")
    assert not page.run("document.getElementById('browser').checkVisibility()")
    assert not page.run("document.querySelector('nav.top').checkVisibility()")
    assert page.run("document.querySelector('[data-table=results]').checkVisibility()")
    assert base64.b64decode(page.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]).startswith(b"%PDF")


def test_nothing_is_fetched_and_nothing_fails(page: Chromium):
    asked = [event["params"]["request"]["url"] for event in page.events if event["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    assert [event for event in page.events if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")] == []


def test_words_that_are_code_are_shown_and_never_run(browser: Chromium, tmp_path: Path):
    hostile = "</script><img src=x onerror=\"window.hit = 1\"><svg onload='window.hit = 2'>"
    base = make_dialogues("base", 4, 0.2, 1)
    write_transcripts(tmp_path, "base", base, None)
    write_transcripts(tmp_path, "tuned", [with_words(dialogue, hostile) for dialogue in make_dialogues("tuned", 4, 0.8, 1)], base)
    write_report(load(tmp_path), RUN, tmp_path / "reports", panels_of_studies())
    browser.look()
    browser.open((tmp_path / "reports" / "index.html").as_uri(), READY)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert hostile in browser.run("document.querySelector('.pane').innerText")
    assert browser.run("window.hit ?? null") is None
    assert browser.run("document.querySelectorAll('img').length") == 0
