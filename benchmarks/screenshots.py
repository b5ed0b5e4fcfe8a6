"""Pictures of the pages of a finished run: MLflow's comparison and dialogues, Prefect's last run, parts of the report and of the pretrained one.

`python -m benchmarks.screenshots WORKSPACE --report FILE --pretrained FILE -o docs/images` starts `rlver ui` in the workspace, opens what it prints in a
headless Chromium, and logs in to Prefect as a person does, with the password from the file that is named. Needs the package chromium.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.chromium import Chromium, installed

WIDTH, HEIGHT = 1440, 950
DRAWN_S = 12.0  # after a page is there, until its charts are
PICTURES = {"comparison": "mlflow-comparison", "dialogues": "mlflow-dialogues", "last run": "prefect-run"}
REPORT = {"results": "report-overview", "over_training": "report-over-training", "dialogues": "report-dialogues"}  # by the panel's id
PRETRAINED = {"audit": "pretrained-audit"}
CLOSE_HELP = """document.querySelector('[data-component-id*=assistant][data-component-id*=close]')?.click();
[...document.querySelectorAll('button')].find(button => button.textContent === 'Got it')?.click()"""


@contextmanager
def pages(workspace: Path) -> Iterator[dict[str, str]]:
    """Name and address of each page, and under `password` the file of Prefect's. Raises RuntimeError where the pages do not start."""
    command = (sys.executable, "-m", "rlver.flows.cli", "ui", "--mlflow-port", "5380", "--prefect-port", "4380")
    with subprocess.Popen(command, cwd=workspace, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found: dict[str, str] = {}
        for line in process.stdout:
            if asked := re.search(r"the line in (\S+)", line):
                found["password"] = asked[1]
            elif link := re.fullmatch(r"  (\S[\w ]*?)  +(http\S+)\n", line):
                found[link[1]] = link[2]
            elif line.startswith("Ctrl-C"):
                break
        else:
            raise RuntimeError("rlver ui ended before its pages were there")
        try:
            yield found
        finally:
            process.terminate()


def log_in(page: Chromium, password: str) -> None:
    """Where the page asks for one."""
    if page.run("location.pathname.endsWith('/login')"):
        page.wait("document.querySelector('input') !== null")
        page.run("document.querySelector('input').focus()")
        page.ask("Input.insertText", text=password)
        page.press("Enter")
        page.wait("!location.pathname.endsWith('/login')")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--report", type=Path, help="an HTML report; of it the top, the panel over training and that of the dialogues")
    parser.add_argument("--pretrained", type=Path, help="the report of `make pretrained`; of it the audit, with the curve of its checks")
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    browser = installed()
    if browser is None:
        print("error: there is no Chromium: install the package chromium", file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    with pages(arguments.workspace) as found, Chromium(browser) as page:
        page.look(WIDTH, HEIGHT)
        for name, picture in PICTURES.items():
            page.ask("Page.navigate", url=found[name])
            time.sleep(DRAWN_S / 2)
            if name == "last run" and "password" in found:
                log_in(page, Path(found["password"]).read_text().strip())
            page.run(CLOSE_HELP)
            time.sleep(DRAWN_S)
            page.run(CLOSE_HELP)
            time.sleep(1.0)
            page.screenshot(arguments.out / f"{picture}.png")
            print(arguments.out / f"{picture}.png", page.run("document.title"))
        for report, pictures in ((arguments.report, REPORT), (arguments.pretrained, PRETRAINED)):
            if report:
                panels(page, report, pictures, arguments.out)
    return 0


def panels(page: Chromium, report: Path, pictures: dict[str, str], out: Path) -> None:
    """A picture of each panel that the report has."""
    page.open(report.resolve().as_uri())
    for panel, picture in pictures.items():
        if not page.run(f"document.getElementById('{panel}') !== null"):
            print(f"{report} has no panel {panel}: {picture}.png is left as it is", file=sys.stderr)
            continue
        page.run(f"document.getElementById('{panel}').scrollIntoView()" if panel != "results" else "scrollTo(0, 0)")
        time.sleep(1.0)
        page.screenshot(out / f"{picture}.png")
        print(out / f"{picture}.png")


if __name__ == "__main__":
    sys.exit(main())
