"""Parameters, overlays, act labels and `.env`: files in the project's folder that somebody else may have written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fuzzing import fuzz, times
from mutation import as_json, mutants

from rlver.components.domain.files import read_yaml
from rlver.components.personas.library import load_library
from rlver.components.settings.settings import SettingsError, load_settings
from rlver.flows.cli import main
from rlver.tasks.runtime.environment import chat_server, policy_server_url, prepare
from rlver.tasks.studies.acts.detection import load_labels, mistakes

ROOT = Path(__file__).parents[2]
LAUGHS = "a: &a [l, l]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
CYCLES = (
    "seed: &s [*s]",
    "train: &t {steps: *t}",
    "train: &t\n  <<: *t\n",
    "seed: &s {*s: 1}",
    "- &e [*e]",
    "- &e {user: *e, reply: *e, acts: *e}",
)
YAML = (  # in the place of a value
    "&a [&b [*a]]", "*nobody", "!!python/object/apply:os.system [id]", "!!python/name:os.system", "!!int ''", "!!int x", "!!float x", "!!bool x", "!!null x",
    "!!binary x", "!!binary aGk=", "!!timestamp x", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!map []", "!!seq {}", "!!str [a]", "!unknown x", "! x",
    "2001-13-45", "2001-01-01", "2001-01-01T99:99:99Z", "0b2", "0o8", "0x", "1:60:60", ".inf", "-.inf", ".nan", "~", "yes", "on", "<<", "=", "1_0", "1e3", "+1",
    "|\n  a\n", ">\n a", "{? [1, 2] : 3}", "{1: 2, a: 3}", "{null: 1}", "{true: 1, 1: 2}", "{? {a: 1} : 2}", "[a, b: c]", "'", '"\\x"', '"\\ud800"', "%TAG ! x",
    "@a", "`a", "- - - -", "? ? ?", "[" * 5_000 + "]" * 5_000, "- " * 5_000 + "a", "9" * 5_000, "\n---\nseed: 1\n", "\n...\n", "#", "&a", "*", "!", "!!", "\x85", "\ufeff",
)  # fmt: skip
BOMBS = [text.encode() for text in (LAUGHS, f"{LAUGHS}seed: *j\n", f"{LAUGHS}*j : 1\n", *CYCLES)]
PARAMETERS = read_yaml(ROOT / "params.yaml")
LABELS = [
    [{"user": "I failed.", "reply": "You did nothing wrong here.", "acts": ["absolve"]}, {"user": "Oh.", "reply": "Fine.", "acts": []}],
    [{"user": "I failed.", "reply": "Tell me more. I am listening.", "acts": []}],
]


@times
def test_parameters(times: int, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load_settings(path).digest()

    fuzz(mutants([PARAMETERS, (ROOT / "params.yaml").read_bytes(), *BOMBS], as_json, YAML), read, times, path.name)


@pytest.mark.long
@times
def test_overlays(times: int, tmp_path: Path) -> None:
    path = tmp_path / "params" / "foreign.yaml"
    path.parent.mkdir()
    (tmp_path / "params.yaml").write_text(json.dumps(PARAMETERS))
    overlays = [read_yaml(file) for file in sorted((ROOT / "params").glob("*.yaml"))]
    assert overlays

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load_settings(tmp_path / "params.yaml", "foreign").digest()

    fuzz(mutants([*overlays, *BOMBS], as_json, YAML), read, times, path.name)


@times
def test_act_labels(times: int, tmp_path: Path) -> None:
    path = tmp_path / "foreign.yaml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        mistakes({path.stem: load_labels(path)}).encode()

    fuzz(mutants([*LABELS, *BOMBS], as_json, YAML), read, times, path.name)


def test_an_error_about_a_long_name_is_one_line_that_people_can_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "foreign.yaml"
    path.write_text(json.dumps([{**LABELS[0][0], "acts": ["x" * 100_000]}]))
    assert main(["simulator", "acts", str(path), "--params", str(ROOT / "params.yaml")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and len(said) < 2_100
    assert "foreign.yaml: entry 1: unknown act 'xxx" in said and said.endswith("or [] for none\n")


@times
def test_scenarios(times: int, tmp_path: Path) -> None:
    path = tmp_path / "foreign.yaml"
    scenarios = [one.model_dump(mode="json") for one in load_library().scenarios[:3]]

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load_library(tmp_path)

    fuzz(mutants([scenarios, scenarios[:1], *BOMBS], as_json, YAML), read, times)


@times
def test_dotenv(times: int, tmp_path: Path) -> None:
    path = tmp_path / ".env"
    lines = b"# keys\nRLVER_USER_URL=http://127.0.0.1:8100/v1\nexport RLVER_USER_KEY='sk-1234'\nRLVER_POLICY_SERVER_URL=\"http://127.0.0.1:1/\"\n\n"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        before = dict(os.environ)
        try:
            prepare(tmp_path)
            policy_server_url(tmp_path)
            server = chat_server("user", tmp_path)
            f"{server.url}{server.key()}".encode()
        finally:
            os.environ.clear()
            os.environ.update(before)

    fuzz(
        mutants(
            [lines, lines.replace(b"\n", b"\r\n")], as_json, ["RLVER_USER_URL=", "=x\n", "a\0b=c\n", "PATH=/\n", "http://[::1", "//u:p@h/"]
        ),
        read,
        times,
    )


@pytest.mark.parametrize("value", [".inf", ".nan", "1e999"])
def test_a_number_that_is_none_is_refused_as_a_parameter(value: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(
        json.dumps({**PARAMETERS, "train": {**PARAMETERS["train"], "learning_rate": "@"}}).replace('"@"', value)
    )
    with pytest.raises(SettingsError, match=r"params\.yaml: train\.learning_rate: Input should be a finite number"):
        load_settings(tmp_path / "params.yaml")
