"""The report of 16 variants x 100 personas x 3 repeats: how large, how long to build, how long to open in Chromium beside an empty page.

    python -m benchmarks.report_size [--folder DIR]      # bars: under 15 MB, open in under 2 s

Messages, thoughts and replies are as long as in the tiny world, and no two are the same: words are drawn at random, as frequent as words are
(Zipf), which compresses several times worse than language; the user's reasons repeat, as a scripted user's do. (An LLM's reasons do not: see docs/evaluation.md for recordings.) "Open" is until
all dialogues are listed and the first one can be read, not just until something is painted; CPU seconds are those of the page's thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from benchmarks.chromium import Chromium, installed
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import HiddenNeed
from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, SimulatorTag, StopReason, Turn
from rlver.components.report.dialogues import unpack
from rlver.components.report.material import material_of
from rlver.components.report.page import write_report
from rlver.components.report.panels.panel import ReportRun
from rlver.components.scoring.units import Sampling
from rlver.tasks.stages.report import panels_of_studies

VARIANTS, PERSONAS, REPEATS, TURNS, LOADS = 16, 100, 3, 10, 7
MOST_MEGABYTES, MOST_SECONDS = 15.0, 2.0
BOOTSTRAP_SAMPLES = 1000
READY = "document.documentElement.dataset.ready === 'true'"
LETTERS = "etaoinshrdlucmfwyp"
WORDS = 5000
WEIGHTS = [1 / (rank + 2.7) for rank in range(WORDS)]  # Zipf-Mandelbrot


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="keep transcripts and report here")
    args = parser.parse_args()
    command = installed()
    if command is None:
        print("needs chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        root = args.folder or Path(folder)
        paths = [write_variant(root, number) for number in range(VARIANTS)]
        began = time.perf_counter()
        material = material_of(paths, paths[0].stem, {}, Sampling(BOOTSTRAP_SAMPLES, 7))
        read = time.perf_counter()
        write_report(material, ReportRun(7, 0.05, None, is_bare=True), root / "report", panels_of_studies())
        built = time.perf_counter()
        page, empty = root / "report" / "index.html", root / "empty.html"
        empty.write_text("<!doctype html><title>empty</title><html data-ready=true>", encoding="utf-8")
        megabytes = page.stat().st_size / 1e6
        html = page.read_text(encoding="utf-8")
        shown = len(unpack(html.partition('id="index">')[2].partition("<")[0])["dialogues"])
        with Chromium(command) as browser:
            browser.look()
            baseline = opened(browser, empty)
            seconds = opened(browser, page)
            cpu_seconds = cpu(browser, page)
            began_search = time.perf_counter()
            browser.run(
                "(() => { const one = document.querySelector('[name=words]'); one.value = 'xyz'; one.dispatchEvent(new Event('input', {bubbles: true})); })()"
            )
            browser.wait("document.querySelector('.count').textContent.startsWith('0 of')")
            searched = time.perf_counter() - began_search
    total = VARIANTS * PERSONAS * REPEATS
    print(f"dialogues   {shown} of {total} inside the page")
    print(f"size        {megabytes:.1f} MB (bar: {MOST_MEGABYTES:.0f})")
    print(f"build       {built - began:.1f} s, of which reading and scoring {read - began:.1f} s")
    print(
        f"open        {seconds:.2f} s, median of {LOADS} (bar: {MOST_SECONDS:.0f}); empty page {baseline:.2f} s; ratio {seconds / baseline:.1f}"
    )
    print(f"            {cpu_seconds:.2f} s of CPU; the first search, which unpacks everything, {searched:.2f} s")
    print(f"build CPU   {time.process_time():.1f} s, the making of the dialogues included")
    return int(megabytes >= MOST_MEGABYTES or seconds >= MOST_SECONDS or shown < total)


def opened(browser: Chromium, page: Path) -> float:
    """Median seconds until the page is ready."""
    return statistics.median(browser.open(page.as_uri() + f"?{number}", READY) for number in range(LOADS))


def cpu(browser: Chromium, page: Path) -> float:
    """CPU seconds of the page's main thread until it is ready."""
    browser.ask("Performance.enable", timeDomain="threadTicks")
    browser.open(page.as_uri() + "?cpu", READY)
    metrics = {one["name"]: one["value"] for one in browser.ask("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def write_variant(root: Path, number: int) -> Path:
    random = Random(number)
    vocabulary = ["".join(random.choices(LETTERS, k=random.randint(2, 9))) for _ in range(WORDS)]
    reasons = [" ".join(random.choices(vocabulary, k=8)) for _ in range(80)]
    path = root / "transcripts" / f"variant-{number:02d}.jsonl"
    dialogues = (
        dialogue(path.stem, persona, repeat, vocabulary, reasons, 0.2 + 0.04 * number, random)
        for persona in range(PERSONAS)
        for repeat in range(REPEATS)
    )
    write_jsonl(path, (one.model_dump(mode="json") for one in dialogues))
    return path


def dialogue(variant: str, persona: int, repeat: int, vocabulary: list[str], reasons: list[str], skill: float, random: Random) -> Dialogue:
    def words(count: int) -> str:
        return " ".join(random.choices(vocabulary, WEIGHTS, k=count))

    emotion, turns = 40, list[Turn]()
    for index in range(TURNS):
        change = random.choice((4, 6, 8)) if random.random() < skill else random.choice((-3, -1, 0))
        emotion = min(99, max(10, emotion + change))
        change = emotion - (turns[-1].emotion or 0 if turns else 40)
        reply = words(12)
        evidence = (
            Evidence(step="content", what=random.choice(("absolve", "praise", "advise", "deep_empathy")), span=reply[:20]),
            Evidence(step="target", what="serves_need" if change > 0 else "misses_need", span=reply[:20], points=change),
        )
        content, target, activity, feeling = random.choices(reasons, k=4)
        felt = Appraisal(content=content, target=target, activity=activity, feeling=feeling, change=change, evidence=evidence)
        turns.append(
            Turn(
                user=words(23),
                assistant=reply,
                think=words(8),
                emotion=emotion,
                appraisal=felt,
                cue=index % 3 == 1,
                reply_tokens=24,
                think_tokens=14,
            )
        )
    need = list(HiddenNeed)[persona % len(HiddenNeed)]
    return Dialogue(
        dialogue_id=f"p{persona:03d}/{repeat}", persona_id=f"p{persona:03d}", hidden_need=need, policy=variant, seed=repeat,
        simulator=SimulatorTag(kind="made-up", difficulty="vanilla", version="1"), emotion_start=40, emotion_final=emotion,
        stop_reason=StopReason.TURN_LIMIT, turns=tuple(turns),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
