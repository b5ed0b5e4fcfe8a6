"""What the product never does, read from its source, and what hostile text, files and servers can not make it do."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rlver.components.domain.files import write_jsonl, write_text_atomically
from rlver.components.domain.printable import one_line, printable
from rlver.components.settings.overlays import SettingsError
from rlver.components.settings.settings import Settings, load_settings
from rlver.flows.cli import main
from rlver.tasks.runtime import processes
from rlver.tasks.runtime.stage import run_stage

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\x08\x7f\r\u202eevil"
PICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle"}
BETWEEN_PROCESSES = {
    f"{verb}_object{what}" for verb in ("all_gather", "gather", "broadcast", "scatter", "send", "recv") for what in ("", "_list")
}
OTHER_YAML = {"yaml", "oyaml", "strictyaml"}
ARCHIVES = {"tarfile", "shutil.unpack_archive"}
CALLED_BY_THEIR_NAMES = {
    "torch": {"load"},
    "numpy": {"load"},
    "os": {"system", "popen"},
    "time": {"time", "time_ns"},
    "datetime": set[str](),
}
_SAYS_NOTHING = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)


@cache
def product(root: Path) -> list[tuple[str, ast.AST]]:
    """(path, node) of every node of the product's source, but for those that only say how another is used."""
    found = []
    files = [path for package in ("components", "tasks", "flows") for path in sorted((root / package).rglob("*.py"))]
    assert len(files) > 100
    for path in files:
        name = path.relative_to(root).as_posix()
        found += [(name, node) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if not isinstance(node, _SAYS_NOTHING)]
    return found


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a name or an attribute; a part that is neither is `?`."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else "?"


def imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    return {(node.module or "").partition(".")[0]} if isinstance(node, ast.ImportFrom) and not node.level else set()


def option(call: ast.Call, name: str) -> object:
    """A keyword's constant; None without it, `...` where it is computed."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return None if not values else values[0].value if isinstance(values[0], ast.Constant) else ...


def no_pickle(node: ast.AST) -> bool:
    """The name of the error may be imported, and PyTorch's loader asked for numbers only: it refuses whatever would run code."""
    if isinstance(node, ast.ImportFrom) and node.module == "pickle":
        return [alias.name for alias in node.names] == ["UnpicklingError"]
    if isinstance(node, ast.Call) and dotted(node.func) == "torch.load":
        return option(node, "weights_only") is True
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in BETWEEN_PROCESSES:
        return False
    return not imported(node) & PICKLES and not (isinstance(node, ast.Call) and dotted(node.func) in {"numpy.load", "np.load"})


def no_evaluation(node: ast.AST) -> bool:
    return not (isinstance(node, ast.Call) and dotted(node.func) in {"eval", "exec", "compile", "__import__", "os.system", "os.popen"})


def no_shell(node: ast.AST) -> bool:
    return not (isinstance(node, ast.Call) and option(node, "shell") not in (None, False))


def no_remote_code(node: ast.AST) -> bool:
    return not (isinstance(node, ast.Call) and option(node, "trust_remote_code") not in (None, False))


def no_archive(node: ast.AST) -> bool:
    return not imported(node) & ARCHIVES and not (isinstance(node, ast.Attribute) and node.attr in {"extractall", "unpack_archive"})


def safe_yaml(node: ast.AST) -> bool:
    made = isinstance(node, ast.Call) and dotted(node.func) == "YAML"
    return not imported(node) & OTHER_YAML and not (made and isinstance(node, ast.Call) and option(node, "typ") != "safe")


def careful_http(node: ast.AST) -> bool:
    """No redirect is followed and every certificate is checked: a key goes to the host it was given for."""
    return not (isinstance(node, ast.Call) and (option(node, "follow_redirects") not in (None, False) or option(node, "verify") is False))


def loopback_only(node: ast.AST) -> bool:
    return not (isinstance(node, ast.Constant) and node.value in {"0.0.0.0", "::", "*:"})


def no_wall_clock(node: ast.AST) -> bool:
    """A clock that is put right in the middle of a run neither ends a wait nor makes it endless."""
    return not (isinstance(node, ast.Call) and dotted(node.func) in {"time.time", "time.time_ns", "datetime.utcnow", "datetime.today"})


def no_other_name(node: ast.AST) -> bool:
    """What the rules above know by its dotted name has no other one."""
    if isinstance(node, ast.ImportFrom):
        return not {alias.name for alias in node.names} & CALLED_BY_THEIR_NAMES.get(node.module or "", set())
    return not isinstance(node, ast.Import) or all(
        alias.name not in CALLED_BY_THEIR_NAMES or (alias.asname or alias.name) in (alias.name, "np") for alias in node.names
    )


RULES: dict[str, tuple[Callable[[ast.AST], bool], str]] = {
    "pickle": (no_pickle, "import joblib"),
    "torch.load": (no_pickle, "torch.load(path)"),
    "torch.load of anything": (no_pickle, "torch.load(path, weights_only=False)"),
    "pickles between processes": (no_pickle, "dist.all_gather_object(parts, own)"),
    "unpickling": (no_pickle, "from pickle import UnpicklingError, loads"),
    "numpy.load": (no_pickle, "np.load(path, allow_pickle=True)"),
    "evaluation": (no_evaluation, "eval(text)"),
    "shell": (no_shell, "subprocess.run(command, shell=True)"),
    "remote code": (no_remote_code, "AutoModel.from_pretrained(path, trust_remote_code=wanted)"),
    "archives": (no_archive, "file.extractall(folder)"),
    "another YAML": (safe_yaml, "import yaml"),
    "unsafe YAML": (safe_yaml, "YAML(typ='unsafe').load(text)"),
    "redirects": (careful_http, "httpx.get(url, follow_redirects=True)"),
    "certificates": (careful_http, "httpx.Client(verify=False)"),
    "servers": (loopback_only, "host = '0.0.0.0'"),
    "wall clock": (no_wall_clock, "end = time.time() + 5"),
    "a loader of its own": (no_other_name, "from torch import load"),
    "a shell of its own": (no_other_name, "from os import system as run"),
    "a clock of its own": (no_other_name, "from time import time"),
    "another numpy": (no_other_name, "import numpy as xp"),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_product_never_does_it_and_the_rule_would_see_it(rule: str, repository_root: Path) -> None:
    holds, offence = RULES[rule]
    assert not all(holds(node) for node in ast.walk(ast.parse(offence))), "a rule that finds nothing proves nothing"
    assert [f"{name}:{getattr(node, 'lineno', 0)}" for name, node in product(repository_root) if not holds(node)] == []


def test_every_model_is_loaded_from_safetensors_and_without_code(repository_root: Path) -> None:
    loads = [
        (name, node)
        for name, node in product(repository_root)
        if isinstance(node, ast.Call) and dotted(node.func).endswith("from_pretrained")
    ]
    assert loads
    for name, node in loads:
        assert isinstance(node, ast.Call) and option(node, "trust_remote_code") is False, f"{name}:{node.lineno}"
        if "Model" in dotted(node.func):
            assert option(node, "use_safetensors") is True, f"{name}:{node.lineno}"


def test_no_parameter_is_a_secret(repository_root: Path) -> None:
    """Parameters are logged to MLflow, shown in Prefect and committed to git."""
    settings = load_settings(repository_root / "params.yaml").model_dump()
    names = {f"{section}.{key}" for section, values in settings.items() if isinstance(values, dict) for key in values}
    assert len(names) > 50
    assert not [name for name in names if re.search(r"(^|[._])(key|secret|password|credential|auth)s?$", name)]
    assert Settings.model_config["extra"] == "forbid"


def test_keys_are_in_no_command_line(repository_root: Path) -> None:
    """A child gets them, if at all, by its environment, which only its owner can read."""
    readers = {name for name, node in product(repository_root) if isinstance(node, ast.Attribute) and node.attr in {"authorization", "key"}}
    starters = {
        name for name, node in product(repository_root) if isinstance(node, ast.Attribute) and dotted(node).startswith("subprocess.")
    }
    assert readers and starters and not readers & starters


# Names that become parts of paths.


@pytest.mark.parametrize("name", ["../secret", "a/b", "/etc/passwd", "..", ".hidden", "a\nb", "a b", "a;b", "$(id)", "", "-rf"])
def test_a_variant_cannot_leave_its_folder(name: str, repository_root: Path, tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    (tmp_path / "params.yaml").write_text((repository_root / "params.yaml").read_text())
    (tmp_path / "secret.yaml").write_text("seed: 8\n")
    with pytest.raises(SettingsError) as error:
        load_settings(tmp_path / "params.yaml", name)
    assert "no name of a variant" in str(error.value) and "\n" not in str(error.value)


def test_ids_of_imported_dialogues_are_in_the_report_and_in_no_path(tmp_path: Path) -> None:
    from report_run import make_dialogues

    from rlver.components.report.material import load_material
    from rlver.components.report.page import write_report
    from rlver.components.report.panels.panel import ReportRun
    from rlver.tasks.stages.report import panels_of_studies

    away, markup = "../../../away", "<script>alert(1)</script>"
    found = [
        dialogue.model_copy(update={"persona_id": f"{away}/{number}{markup}", "dialogue_id": f"{away}/{markup}/{number}", "policy": markup})
        for number, dialogue in enumerate(make_dialogues("x", 4, 0.5, 1))
    ]
    failed = make_dialogues("x", 4, 0.5, 1, failed=True)[-1].model_copy(update={"error": f"{markup}{ESCAPES}"})
    root = tmp_path / "deep" / "er" / "project"
    write_jsonl(root / "transcripts" / "base.jsonl", [dialogue.model_dump(mode="json") for dialogue in (failed, *found)])
    write_report(
        load_material(root / "transcripts", root / "metrics", root / "logs"),
        ReportRun(7, 0.05, markup),
        root / "reports",
        panels_of_studies(),
    )
    assert markup not in re.sub(r'<script type="application/json".*?</script>', "", (root / "reports" / "index.html").read_text())
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(root)]
    assert not outside and (root / "reports" / "index.html").is_file()
    for text in ("tables/results.csv", "results.md"):
        assert "\x1b" not in (root / "reports" / text).read_text()


# Text that a terminal would obey.


def test_control_characters_are_shown_not_obeyed_and_writing_of_all_kinds_stays() -> None:
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", printable(ESCAPES)) is None and "owned" in printable(ESCAPES)
    kept = "你好，世界　“naïve” 👨\u200d👩\u200d👧 عربى\n\tnext"
    assert printable(kept) == kept
    assert one_line("two\nlines\x1b[0m") == "two lines\ufffd[0m"


def test_an_error_is_one_printable_line_whatever_is_in_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise ValueError(f"persona\nINFO all is well {ESCAPES}")

    assert run_stage(fail) == 1
    monkeypatch.setattr("rlver.flows.cli.app", lambda *_, **__: fail())
    assert main(["doctor"]) == 1
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith("error: persona INFO all is well") and line == printable(line)


def test_what_a_stage_prints_reaches_terminal_and_logs_without_control_characters(tmp_path: Path) -> None:
    said: list[str] = []
    processes.run((sys.executable, "-c", f"print({ESCAPES!r})"), tmp_path, dict(os.environ), said.append)
    assert said and all(line == printable(line) for line in said)


# Files.


def test_what_is_written_is_as_private_as_its_owner_wants(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text_atomically(tmp_path / "private.txt", "x")
        os.umask(0o022)
        write_text_atomically(tmp_path / "shared.txt", "x")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "private.txt", tmp_path / "shared.txt")] == [0o600, 0o644]


def test_env_is_for_its_owner_only(tmp_path: Path) -> None:
    from rlver.tasks.commands.doctor import _secrets

    file = tmp_path / ".env"
    assert _secrets(file)[0]
    file.write_text("RLVER_USER_KEY=x\n")
    file.chmod(0o644)
    good, _, remedy = _secrets(file)
    assert not good and "chmod 600" in remedy
    file.chmod(0o600)
    assert _secrets(file)[0]


def test_git_ignores_what_is_secret_or_private(repository_root: Path) -> None:
    paths = (".env", "answers/user.db", "blind/answers.jsonl", "transcripts/a.jsonl", "mlflow.db", ".prefect/prefect.db")
    done = subprocess.run(("git", "check-ignore", *paths), cwd=repository_root, capture_output=True, text=True, check=False)
    if "not a git repository" in done.stderr:
        pytest.skip("no git here")
    assert done.stdout.split() == list(paths)
