"""How hard the pages are to read: mean words a sentence and the share of sentences above 30 words, page by page.

    python -m benchmarks.readability [PAGE…]

The exit status is 1 where a page is hard, or the pages that one reads are too long; `make docs` stops there. Counted is running text:
paragraphs, list items and quotations. Cells of tables are counted by themselves, since their short phrases would make any page look easy. Left
out are code and headings. A colon or a semicolon ends no sentence, so splitting by punctuation alone gains nothing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONG = 30  # words
MOST_MEAN, MOST_LONG_SHARE = 15.0, 0.03
MOST_WORDS = 25_000  # of the reading path
# The pages that one reads; all others are details behind them, or the generated reference.
READING_PATH = (
    "README.md",
    *(f"docs/{name}.md" for name in (
        "tutorial", "concepts", "guides/real-models", "serving", "personas", "operations", "troubleshooting", "any-model", "evaluation",
        "audit", "results", "simulator", "training", "architecture", "maintain",
    )),
)  # fmt: skip
# Abbreviations whose full stop ends nothing.
_NO_END = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|al)\.")


class Readability(NamedTuple):
    sentences: int
    mean_words: float
    long_share: float

    @property
    def is_plain(self) -> bool:
        return self.mean_words <= MOST_MEAN and self.long_share <= MOST_LONG_SHARE


def sentences(markdown: str) -> list[str]:
    """The sentences of a page's running text, code spans and links read as the words that a reader sees."""
    text = re.sub(r"^(```|~~~)[^\n]*\n.*?^\1[^\n]*$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\$\$.*?\$\$$", "", text, flags=re.DOTALL | re.MULTILINE)
    kept = [line for line in text.splitlines() if not re.match(r"\s*(\||#|!\[|<)", line)]
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(kept))
    found = []
    for block in blocks:
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
        words = re.sub(r"`[^`]*`", lambda code: code[0].replace(".", "·").replace("?", ""), words)
        words = re.sub(r"^\s*(?:[-*]|\d+\.|>) ?", "", words, flags=re.MULTILINE)
        words = _NO_END.sub(r"\1", re.sub(r"[*_`]", "", words))
        found += [part.strip() for part in re.split(r"(?<=[.!?])[)\"”]?\s+", " ".join(words.split())) if re.search(r"[A-Za-z]", part)]
    return found


def readability(markdown: str) -> Readability:
    """Raises ValueError for a page without a sentence."""
    lengths = [len([word for word in sentence.split() if re.search(r"\w", word)]) for sentence in sentences(markdown)]
    if not lengths:
        raise ValueError("expected a page with sentences, got none")
    return Readability(len(lengths), sum(lengths) / len(lengths), sum(length > LONG for length in lengths) / len(lengths))


def table_readability(markdown: str) -> Readability | None:
    """The same of the cells of its tables that hold more than one word; None without any."""
    rows = [line.strip().strip("|") for line in markdown.splitlines() if re.match(r"\s*\|(?![\s:|-]+$)", line)]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row) if len(cell.split()) > 1]
    return readability("\n\n".join(cells)) if any(sentences(cell) for cell in cells) else None


def count_words(markdown: str) -> int:
    """Of everything on a page, tables and code too; a mark alone is no word."""
    return sum(1 for word in markdown.split() if re.search(r"\w", word))


def pages(root: Path) -> list[Path]:
    """The pages that this is asked of: the front page, the rules for contributors, the examples and docs/ without the experiment log."""
    first = [root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    found = [*first, *sorted((root / "docs").rglob("*.md"))]
    return [page for page in found if page.name != "log.md"]


def main(arguments: list[str]) -> int:
    """The exit status."""
    chosen = [Path(name) for name in arguments] or pages(ROOT)
    hard = 0
    print(f"{'page':34} {'words':>6} {'sentences':>9} {'mean':>6} {'above 30':>8}")
    for page in chosen:
        text = page.read_text(encoding="utf-8")
        found, table = readability(text), table_readability(text)
        is_plain = found.is_plain and (table is None or table.is_plain)
        mark = "" if is_plain else "  hard" if not found.is_plain else "  hard tables"
        hard += not is_plain
        print(f"{page.name:34} {count_words(text):6} {found.sentences:9} {found.mean_words:6.1f} {found.long_share:8.1%}{mark}")
    total = sum(count_words((ROOT / page).read_text(encoding="utf-8")) for page in READING_PATH)
    print(f"\nreading path: {len(READING_PATH)} pages, {total:,} words of {MOST_WORDS:,}")
    if hard:
        print(
            f"error: {hard} pages are hard: at most {MOST_MEAN:g} words a sentence and {MOST_LONG_SHARE:.0%} above {LONG}", file=sys.stderr
        )
    too_long = not arguments and total > MOST_WORDS
    if too_long:
        print(
            f"error: the reading path is {total - MOST_WORDS:,} words too long: move what few need onto a page under Details",
            file=sys.stderr,
        )
    return 1 if hard or too_long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
