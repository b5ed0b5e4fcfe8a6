"""Links of Markdown files, from where GitHub finds them to where the site does.

A link to a page of the site becomes a link to that page. A link to any other file of the repository becomes a link to a page that shows
the file (a folder: its list), so that the site needs no other place. A link to nothing is left alone: MkDocs then ends the build.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

_LINK = re.compile(r"(?P<before>\]\()(?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", flags=re.DOTALL)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".jsonl": "json", ".sh": "sh"}


class Pages:
    """`sources`: the address of each page on the site, and the file of the repository that it is made from."""

    def __init__(self, root: Path, sources: Mapping[str, str]) -> None:
        self._root, self._sources = root, sources
        self._page_of = {source: page for page, source in sources.items()}
        self._shown: set[str] = set()

    def source(self, page: str) -> str:
        return (self._root / self._sources[page]).read_text(encoding="utf-8")

    def text(self, page: str) -> str:
        """The page's text with its links changed; what the links show is remembered for `shown_files`."""
        parts = _CODE.split(self.source(page))  # every second part is code
        return "".join(part if number % 2 else self._linked(page, part) for number, part in enumerate(parts))

    def shown_files(self) -> dict[str, str]:
        return {self._address(path): self._shown_file(path) for path in sorted(self._shown)}

    def _linked(self, page: str, text: str) -> str:
        def changed(link: re.Match[str]) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(self._sources[page]), link["path"]))
            if target in self._page_of:
                address = self._page_of[target]
            elif not (self._root / target).exists():
                return link[0]
            elif target.startswith("docs/"):  # a picture
                address = target.removeprefix("docs/")
            else:
                self._shown.add(target)
                address = self._address(target)
            return f"{link['before']}{posixpath.relpath(address, posixpath.dirname(page))}{link['anchor'] or ''}{link['after']}"

        return _LINK.sub(changed, text)

    @staticmethod
    def _address(path: str) -> str:
        return f"files/{path}.md"

    def _shown_file(self, path: str) -> str:
        place = self._root / path
        if place.is_dir():
            names = sorted(
                inner.relative_to(place).as_posix() for inner in place.rglob("*") if inner.is_file() and ".pyc" not in inner.name
            )
            return f"# {path}/\n\n" + "".join(f"- `{name}`\n" for name in names)
        return f"# {path}\n\n~~~~{_LANGUAGES.get(place.suffix, 'text')}\n{place.read_text(encoding='utf-8')}~~~~\n"
