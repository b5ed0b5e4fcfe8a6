"""What a run leaves on Prefect's page: the results as a table, and each report's own tables under its learning curve.

A page of a server may show no file of this machine (browsers block `file://` links), so what is to be seen travels in the artifact.
"""

from __future__ import annotations

import base64
from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from rlver.tasks.tracking import results

CURVE = Path("plots/learning-curve.png")


def publish(root: Path) -> None:
    """The table of results, and each report that there is, as artifacts of the flow run."""
    if text := results.table(root):
        create_markdown_artifact(text, key="results", description="Results of all variants that were scored")
    for key, page in results.reports(root).items():
        place = page.relative_to(root)
        create_markdown_artifact(report(page), key=key, description=f"The report; the whole of it is {place} in the project's folder")


def report(page: Path) -> str:
    """The learning curve and the tables beside the report's page, as Markdown in which the image is contained."""
    tables = page.with_name("results.md")
    parts = [
        _image(page.parent / CURVE, "learning curve"),
        tables.read_text(encoding="utf-8") if tables.is_file() else f"There are no tables beside {page.name}.",
    ]
    return "\n\n".join(part for part in parts if part)


def _image(path: Path, said: str) -> str:
    return f"![{said}](data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()})" if path.is_file() else ""
