"""One page per package of the method: its modules, with their docstrings and public names (mkdocstrings reads them, nothing is imported)."""

from __future__ import annotations

from pathlib import Path


def pages(components: Path) -> dict[str, str]:
    """Text by package name."""
    packages = sorted(path.parent for path in components.glob("*/__init__.py"))
    if not packages:
        raise ValueError(f"no packages in {components}")
    return {package.name: _page(package, components.parent) for package in packages}


def _page(package: Path, root: Path) -> str:
    names = [_dotted(path, root) for path in sorted(package.rglob("*.py"))]
    sections = "\n".join(f"## {name}\n\n::: {name}\n    options:\n      show_root_heading: false\n" for name in names)
    return f"# rlver.components.{package.name}\n\nPublic names with a docstring, from the code.\n\n{sections}"


def _dotted(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(("rlver", *(parts[:-1] if parts[-1] == "__init__" else parts)))
