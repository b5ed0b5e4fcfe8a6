"""The documentation agrees with the program: commands that parse, links that lead somewhere, a reference that leaves nothing out."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from documents import rlver_commands, section, shell_blocks, unnamed_blocks
from ruamel.yaml import YAML

from benchmarks import screenshots
from benchmarks.readability import MOST_WORDS, READING_PATH, count_words, readability, sentences, table_readability
from benchmarks.readability import main as measure_pages
from benchmarks.readability import pages as measured_pages
from rlver.flows.cli import app

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "site"))
import command_line
import links
import parameters
import python_modules


def pages(root: Path) -> list[Path]:
    found = [*sorted((root / "docs").rglob("*.md")), root / "README.md", root / "CONTRIBUTING.md"]
    assert len(found) > 20
    return found


def parse(command: Any, words: list[str], name: str = "rlver") -> None:
    """Read a command line as the program would, without running it. Raises typer's usage errors."""
    context = command.make_context(name, list(words))
    if hasattr(command, "commands") and (rest := [*context._protected_args, *context.args]):
        inner_name, inner, inner_words = command.resolve_command(context, rest)
        parse(inner, inner_words, inner_name)


def test_every_command_in_the_documentation_parses(repository_root: Path) -> None:
    group = typer.main.get_command(app)
    wrong, count = [], 0
    for page in pages(repository_root):
        for words in rlver_commands(page):
            count += 1
            try:
                parse(group, words)
            except typer.Exit:  # --help
                pass
            except Exception as error:
                wrong.append(f"{page.relative_to(repository_root)}: rlver {' '.join(words)}: {error!r}")
    assert count > 60
    assert not wrong, "\n".join(wrong)


def test_a_wrong_command_does_not_parse() -> None:
    group = typer.main.get_command(app)
    for words in (["scores", "x"], ["score"], ["score", "x", "--no-such-option"], ["blind", "report"], ["run", "--jobs", "many"]):
        with pytest.raises(Exception, match=r"(?i)no such|missing|valid integer"):
            parse(group, words)


def test_every_relative_link_leads_somewhere(repository_root: Path) -> None:
    broken = [
        f"{page.relative_to(repository_root)}: {target}"
        for page in pages(repository_root)
        for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)", re.sub(r"```.*?```|`[^`\n]+`", "", page.read_text(), flags=re.DOTALL))
        if not (page.parent / target).exists()
    ]
    assert not broken


def test_every_file_that_a_page_names_is_there(repository_root: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=repository_root, capture_output=True, text=True, check=True).stdout.split()
    ends = {"/".join(name.split("/")[start:]) for name in listed for start in range(name.count("/") + 1)}
    pages = [name for name in listed if name.endswith(".md") and name not in ("CHANGELOG.md", "docs/log.md")]  # both tell of older files
    missing = [
        f"{page}: {named}"
        for page in pages
        for named in re.findall(r"`([\w./-]+\.(?:py|j2))`", (repository_root / page).read_text(encoding="utf-8"))
        if named not in ends and "NAME" not in named
    ]
    assert not missing


def test_every_picture_is_on_a_page_and_made_by_the_script(repository_root: Path) -> None:
    made = {*screenshots.PICTURES.values(), *screenshots.REPORT.values(), *screenshots.PRETRAINED.values()}
    there = {path.stem for path in (repository_root / "docs" / "images").iterdir()}
    assert there and there <= made, "pictures are made by python -m benchmarks.screenshots"
    shown = "".join(page.read_text(encoding="utf-8") for page in pages(repository_root))
    assert not [name for name in there if f"images/{name}.png)" not in shown]


def test_every_page_is_in_the_navigation(repository_root: Path) -> None:
    named = set(re.findall(r": ([\w/-]+\.md)$", (repository_root / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    there = {path.relative_to(repository_root / "docs").as_posix() for path in (repository_root / "docs").rglob("*.md")}
    made = {
        "index.md",
        "contributing.md",
        "security.md",
        "changelog.md",
        "reference/command-line.md",
        "reference/messages.md",
        "reference/parameters.md",
    }
    made |= {f"reference/{package}.md" for package in python_modules.pages(repository_root / "components")}
    assert named == there | made, sorted(named ^ (there | made))


def test_the_reference_has_every_command_and_option() -> None:
    page = command_line.page()
    commands = command_line._commands(("rlver",), typer.main.get_command(app))
    assert len(commands) > 30
    for words, command in commands:
        assert f"# {' '.join(words)}\n" in page
        for parameter in command.params:
            assert all(f"`{name}" in page or f" {name}" in page for name in getattr(parameter, "opts", []) if name.startswith("-"))


def test_the_reference_has_every_parameter_with_its_value(repository_root: Path, tmp_path: Path) -> None:
    page = parameters.page(repository_root / "params.yaml")
    values = YAML(typ="safe").load(repository_root / "params.yaml")
    assert all(f"\n## {name}\n" in page for name in values)
    assert f"| `learning_rate` | `{values['train']['learning_rate']}` |" in page
    (tmp_path / "params.yaml").write_text("train:\n  steps: 3  # how many\n  sizes:\n    - 1\n    - 2\n")
    with pytest.raises(ValueError, match=r"sizes|expected"):
        parameters.page(tmp_path / "params.yaml")


def test_a_link_out_of_the_documentation_becomes_a_page_that_shows_the_file(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "params.yaml").write_text("seed: 7\n")
    (tmp_path / "README.md").write_text("[a](docs/a.md#b) `[c](d)` [p](params.yaml) [gone](gone.md) [web](https://example.org)\n")
    (tmp_path / "docs" / "a.md").write_text("[up](../params.yaml) [home](../README.md)\n")
    site = links.Pages(tmp_path, {"a.md": "docs/a.md", "index.md": "README.md"})
    assert site.text("index.md") == "[a](a.md#b) `[c](d)` [p](files/params.yaml.md) [gone](gone.md) [web](https://example.org)\n"
    assert site.text("a.md") == "[up](files/params.yaml.md) [home](index.md)\n"
    assert site.shown_files() == {"files/params.yaml.md": "# params.yaml\n\n~~~~yaml\nseed: 7\n~~~~\n"}


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(repository_root: Path, tmp_path: Path) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(repository_root / "mkdocs.yml"), site_dir=str(tmp_path)))
    made = sorted(tmp_path.rglob("*.html"))
    assert len(made) > 40
    for page in made:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'(?:<script[^>]+src|<link[^>]+href|<img[^>]+src)="(?:https?:)?//', text), page
        assert 'class="arithmatex"' not in text, page
    assert "<math" in (tmp_path / "training.html").read_text()
    assert posixpath.exists(tmp_path / "files" / "paper" / "runs.yaml.html")


def test_the_tour_is_made_of_commands_with_their_output(repository_root: Path) -> None:
    tour = section(repository_root / "docs" / "tutorial.md", "The five-minute tour")
    assert len(shell_blocks(tour)) == tour.count("```text\n") >= 4


def test_the_citation_is_of_this_version_and_the_reference_number_is_the_front_pages(repository_root: Path) -> None:
    citation = YAML(typ="safe").load(repository_root / "CITATION.cff")
    project = tomllib.loads((repository_root / "pyproject.toml").read_text())["project"]
    assert (citation["cff-version"], citation["version"], citation["license"]) == ("1.2.0", project["version"], project["license"])
    assert YAML(typ="safe").load(repository_root / "components" / "adapters" / "openenv.yaml")["version"] == project["version"]
    number = re.search(r"> \*\*(\d+\.\d \[\d+\.\d, \d+\.\d\])\*\*", (repository_root / "docs" / "any-model.md").read_text())
    assert number, "the page to cite from names no reference number"
    for page in ("README.md", "docs/results.md"):
        assert number[1] in (repository_root / page).read_text(), page
    found = json.loads((repository_root / "metrics" / "grpo-think" / "sentient.json").read_text())
    low, high = (found["emotion_ci95"][end] for end in ("lo", "hi"))
    assert number[1] == f"{found['emotion_mean']:.1f} [{low:.1f}, {high:.1f}]", "the result in git is another"


def test_pages_are_plain(repository_root: Path) -> None:
    """At most 15 words a sentence on average and 3% of the sentences above 30, as `python -m benchmarks.readability` prints them."""
    pages = measured_pages(repository_root)
    found = {page.relative_to(repository_root): readability(page.read_text(encoding="utf-8")) for page in pages}
    assert len(found) > 20
    hard = {page: one for page, one in found.items() if not one.is_plain}
    hard |= {
        page: one for page in found if (one := table_readability((repository_root / page).read_text(encoding="utf-8"))) and not one.is_plain
    }
    assert not hard, "\n".join(f"{page}: mean {one.mean_words:.1f}, above 30 {one.long_share:.1%}" for page, one in hard.items())


BESIDE_THE_PATH = ("docs/glossary.md", "CONTRIBUTING.md", "SECURITY.md")  # to look something up in


def test_the_pages_that_one_reads_are_few_and_short(repository_root: Path) -> None:
    assert len(READING_PATH) <= 16, "fifteen pages and the examples"
    assert sum(count_words((repository_root / page).read_text(encoding="utf-8")) for page in READING_PATH) <= MOST_WORDS
    front = (repository_root / "README.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"## Which page is for you\n(.*?)\n## ", front, flags=re.DOTALL)
    assert set(re.findall(r"\]\(([^)#]+\.md)", named)) == {*READING_PATH[1:], *BESIDE_THE_PATH}, (
        "the front page leads to each of them, and to no other"
    )


def test_readability_counts_what_a_reader_reads() -> None:
    text = "# Not this\n\n| nor | this |\n\n```sh\nnor this. Or this.\n```\n\nOne two [three](a.md). `a.b c` is four!\n- Five six: seven; eight\n"
    assert sentences(text) == ["One two three.", "a·b c is four!", "Five six: seven; eight"]
    assert readability("word " * 31 + ". Short.\n") == (2, 16.0, 0.5)
    assert not readability("word " * 31 + ".").is_plain
    with pytest.raises(ValueError, match="got none"):
        readability("# Title\n")
    assert table_readability("| nor | this |\n|---|---|\n| two words. Three of them | x |\nNot a cell.\n") == (2, 2.5, 0)
    assert table_readability("No table.") is None


def test_the_measurement_fails_for_a_hard_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text, status in (("plain.md", "A short sentence.\n", 0), ("hard.md", "word " * 31 + ".\n", 1)):
        (tmp_path / name).write_text(text)
        assert measure_pages([str(tmp_path / name)]) == status
        assert ("error: 1 pages are hard" in capsys.readouterr().err) is bool(status)


def test_each_figure_stands_on_one_page(repository_root: Path) -> None:
    """Figures with their intervals. Only the reference number is told again: on the front page and on the page to cite from.

    Left out are the pages that count a few labelled replies: 3 of 3 is the same share on each of them.
    """
    figure = re.compile(r"[−+]?\d*\.\d+ \[[−+-]?\d*\.\d+, [−+-]?\d*\.\d+\]")
    labelled = {"act-detector.md", "special-users.md", "hearing.md"}
    told = {
        page.name if page.parent.name == "docs" else page.relative_to(repository_root).as_posix(): set(
            figure.findall(page.read_text(encoding="utf-8").replace("*", ""))
        )
        for page in measured_pages(repository_root)
        if page.name not in labelled
    }
    reference = told["any-model.md"]
    assert len(reference) == 3 and reference <= told["README.md"] and reference <= told["results.md"]
    assert sum(map(len, told.values())) > 100
    twice = [
        f"{one} is on {page} and on {other}"
        for page, figures in told.items()
        for other, others in told.items()
        if page < other
        for one in figures & others
        if one not in reference or not {page, other} <= {"README.md", "any-model.md", "results.md"}
    ]
    assert not twice, "\n".join(twice)


COMMAND = re.compile(
    r"(?:\.venv/bin/)?(?:rlver|make|dvc|git|python|pip|mlflow|curl|torchrun|lm_eval|sqlite3|echo|cp|vllm) [\w./'\"-]", flags=re.MULTILINE
)


def test_commands_stand_in_blocks_that_say_so(repository_root: Path) -> None:
    """So that they are coloured, copied, parsed and run as shell."""
    blocks = [(page, block) for page in pages(repository_root) for block in unnamed_blocks(page.read_text(encoding="utf-8"))]
    assert len(blocks) > 5
    wrong = [f"{page.relative_to(repository_root)}: {block.splitlines()[0]}" for page, block in blocks if COMMAND.match(block)]
    assert not wrong, "write ```sh before them:\n" + "\n".join(wrong)


def test_every_shell_block_is_shell(repository_root: Path) -> None:
    blocks = [block for page in pages(repository_root) for block in shell_blocks(page.read_text(encoding="utf-8"))]
    assert len(blocks) > 25
    wrong = [
        block for block in blocks if subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, check=False).returncode
    ]
    assert not wrong, "\n".join(wrong)
