"""What the house weighs: lines, files, class names, cycles of rooms, and the path from personas to the report: `python -m benchmarks.house`.

Lines are all lines of product Python (components/, tasks/, flows/), blank ones and docstrings too. The path is the import closure of the
stages of dvc.yaml. A room is a folder of components/ or tasks/; flows/ is one.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import networkx as nx

from rlver.components.domain import registry

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("components", "tasks", "flows")
PATH = ("personas", "base", "train", "converse", "score", "benchmark", "report")


def modules(root: Path) -> dict[str, Path]:
    """Every module of the product by its dotted name."""
    found = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    return {"rlver." + ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def imports(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the product that this one imports, also inside functions; a registry that it loads from is all of its kinds."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.Attribute) and node.attr == "load" and isinstance(node.value, ast.Name):
            kinds = getattr(registry, node.value.id, None)
            if isinstance(kinds, registry.Registry):
                pattern = re.escape(kinds.pattern.partition(":")[0]).replace(r"\*", r"\w+")
                yield from (module for module in known if re.fullmatch(pattern, module))


def imported(root: Path) -> nx.DiGraph:
    """Which module imports which, as a graph."""
    known = modules(root)
    graph = nx.DiGraph()
    graph.add_nodes_from(known)
    graph.add_edges_from((module, other) for module, path in known.items() for other in imports(path, known) if other != module)
    return graph


def closure(start: set[str], graph: nx.DiGraph) -> set[str]:
    """Everything that is loaded with `start`: what each module imports, and the packages it lies in."""
    reached, left = set[str](), set(start)
    while left:
        module = left.pop()
        reached.add(module)
        packages = {module.rsplit(".", count)[0] for count in range(1, module.count("."))}
        left |= ({*graph.successors(module)} | (packages & graph.nodes)) - reached
    return reached


def room(module: str) -> str:
    parts = module.split(".")
    return "flows" if parts[1] == "flows" else ".".join(parts[1:3])


def cycles(graph: nx.DiGraph) -> list[list[str]]:
    """Groups of rooms that import each other in a circle."""
    rooms = nx.DiGraph((room(one), room(other)) for one, other in graph.edges if room(one) != room(other))
    return [sorted(circle) for circle in nx.strongly_connected_components(rooms) if len(circle) > 1]


def shared_class_names(known: Mapping[str, Path]) -> dict[str, list[str]]:
    """Names that stand for more than one class, and where."""
    places = defaultdict[str, list[str]](list)
    for module, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def measured(root: Path = ROOT) -> dict[str, Any]:
    """All figures by name."""
    known = modules(root)
    lines = {module: path.read_text(encoding="utf-8").count("\n") for module, path in known.items()}
    graph = imported(root)
    path = closure({f"rlver.tasks.stages.{stage}" for stage in PATH}, graph)
    chapters = [count for module, count in lines.items() if known[module].name != "__init__.py"]
    return {
        "lines": sum(lines.values()),
        "lines from personas to report": sum(lines[module] for module in path),
        "files": len(lines),
        "lines of a file, median": statistics.median(chapters),
        "files over 300 lines": sorted(module for module, count in lines.items() if count > 300),
        "files of 60 lines or fewer": sum(count <= 60 for count in chapters),
        "class names of several classes": shared_class_names(known),
        "cycles of rooms": cycles(graph),
        "studies on the path": sorted(module for module in path if ".studies." in module),
    }


def main() -> None:
    for name, value in measured().items():
        print(f"{name}: {value if value or value == 0 else 'none'}")


if __name__ == "__main__":
    main()
