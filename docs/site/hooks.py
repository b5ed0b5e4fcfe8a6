"""What MkDocs calls while it builds the site: pages that are made from the repository, and formulas without a script.

Nothing generated is written into docs/. The front page is README.md; the reference is read from the code that it describes.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import command_line
import latex2mathml.converter
import messages
import parameters
import python_modules
from links import Pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# Files outside docs/ that are pages of the site, by the page's address.
OUTSIDE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    inside = {file.src_uri: f"docs/{file.src_uri}" for file in files.documentation_pages()}
    pages = Pages(ROOT, inside | OUTSIDE)
    made = {page: pages.text(page) for page in OUTSIDE}
    made |= {page: text for page in inside if (text := pages.text(page)) != pages.source(page)}
    made["reference/command-line.md"] = command_line.page()
    made["reference/messages.md"] = messages.page(ROOT)
    made["reference/parameters.md"] = parameters.page(ROOT / "params.yaml")
    made |= {f"reference/{package}.md": text for package, text in python_modules.pages(ROOT / "components").items()}
    made |= pages.shown_files()
    for address, text in made.items():
        if (old := files.get_file_from_path(address)) is not None:
            files.remove(old)
        files.append(File.generated(config, address, content=text))
    return files


def on_page_content(content: str, **_: Any) -> str:
    r"""`\(…\)` and `\[…\]`, as arithmatex leaves them, become MathML, which browsers draw by themselves."""

    def drawn(found: re.Match[str]) -> str:
        formula = html.unescape(found["inline"] or found["block"])
        return str(latex2mathml.converter.convert(formula, display="inline" if found["inline"] else "block"))

    return re.sub(
        r'<(span|div) class="arithmatex">(?:\\\((?P<inline>.+?)\\\)|\\\[(?P<block>.+?)\\\])</\1>', drawn, content, flags=re.DOTALL
    )
