"""HumanEval and MBPP: reading code out of replies, and running it shut in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlver.components.ability import backends, sandbox
from rlver.components.ability.general import BenchmarkError, run_tasks
from rlver.components.ability.sandbox import ends_well
from rlver.components.ability.tasks import code_of, humaneval_program, mbpp_program
from rlver.components.domain.files import BadFile, write_jsonl

TWICE = {
    "prompt": 'import math\n\n\ndef half(x):\n    return x / 2\n\n\ndef twice(x):\n    """Twice x."""\n',
    "entry_point": "twice",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(half(2)) == 2\n    assert math.pi",
}
ADD = {"text": "Write a function to add two numbers.", "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"]}


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("Sure.\n```python\nx = 1\n```\nDone.", "x = 1\n"),
        ("```\nfirst\n```\nbetter:\n```py\nsecond\n```", "second\n"),
        ("```python\ndef twice(x): ...\n```\nand so you call it:\n```python\ntwice(3)\n```", "def twice(x): ...\n"),
        ("```python\ncut off", "cut off"),
        ("no block at all", "no block at all"),
        ("```python3\ndef twice(x): ...\n```\nThis works", "def twice(x): ...\n"),
        ("```text\ntwice(3) is 6\n```\nSo:\n```python\nx = 1\n```", "x = 1\n"),
        ("```python\r\nx = 1\r\n```", "x = 1\r\n"),
    ],
)
def test_code_is_the_fitting_block_of_a_reply(reply: str, code: str):
    assert code_of(reply, "def twice") == code


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("```python\ndef twice(x):\n    return 2 * x\n```", True),
        ("    return 2 * x", True),  # continues the function, as a base model does
        ("```python\n    return 2 * x\n```", True),
        ("```python\ndef twice(x):\n    return x\n```", False),
        ("I cannot do that.", False),
        ("```python\ndef twice(x):\n    return 2 * x\n\nif __name__ == '__main__':\n    print(twice(int(input())))\n```", True),
        ("", False),
        ("```python\ndef twice(x):\n    return 2 * x\nraise SystemExit(0)\n```", False),  # leaves before it is tested
    ],
)
def test_a_humaneval_answer_is_right_when_the_tests_pass(reply: str, right: bool):
    assert ends_well(humaneval_program(TWICE, reply)) is right


def test_a_function_is_looked_for_by_its_whole_name():
    """`def twice` is no beginning of `def twice_all`, nor the end of `def at_twice`."""
    reply = "```python\ndef twice(x):\n    return 2 * x\n```\nand\n```python\ndef twice_all(xs):\n    return [twice(x) for x in xs]\n```"
    assert ends_well(humaneval_program(TWICE, reply))
    body = "```python\n    return 2 * x\n\n\ndef at_twice(x):\n    return twice(x)\n```"
    assert ends_well(humaneval_program(TWICE, body))
    assert humaneval_program(TWICE | {"entry_point": "f"}, "    return factorial(x)\ndef factorial(n): ...").program.endswith(
        f"{TWICE['prompt']}    return factorial(x)\ndef factorial(n): ...\n"
    )


def test_an_mbpp_answer_is_right_when_the_tests_pass():
    assert ends_well(mbpp_program(ADD, "```python\ndef add(a, b):\n    return a + b\n```"))
    assert not ends_well(mbpp_program(ADD, "```python\ndef add(a, b):\n    return a - b\n```"))
    assert not ends_well(mbpp_program(ADD | {"test_setup_code": "add = None"}, "```python\ndef add(a, b):\n    return a + b\n```"))


@pytest.mark.parametrize(
    "program",
    [
        "import os; os._exit(0)",
        "bytearray(3 << 30)",
        "open('large', 'wb').write(bytes(20 << 20))",
        "import os; assert os.environ.get('RLVER_SECRET')",
        "def f(",
    ],
)
def test_what_leaves_early_or_asks_too_much_does_not_end_well(program: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLVER_SECRET", "key")
    assert not ends_well(program)


def test_a_program_without_end_is_ended():
    begun = time.monotonic()
    assert not ends_well("while True: pass", seconds=1.0)
    assert time.monotonic() - begun < 10


def test_a_program_sees_an_empty_folder_which_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ends_well("import os; assert os.listdir() == []; open('left', 'w').write('x')")
    assert list(tmp_path.iterdir()) == []


def _lets_make_namespaces() -> bool:
    tried = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "true")
    return shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.long
@pytest.mark.skipif(not _lets_make_namespaces(), reason="this system lets no user make namespaces: unshare is missing or forbidden")
def test_a_program_has_no_network_and_nothing_it_starts_outlives_it(tmp_path: Path):
    assert sandbox._shut_in()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connect = f"import socket; socket.create_connection(('127.0.0.1', {listening.getsockname()[1]}), 5)"
        subprocess.run((sys.executable, "-c", connect), check=True)
        assert not ends_well(connect)
    assert ends_well("import socket; assert [name for _, name in socket.if_nameindex()] == ['lo']")
    late = tmp_path / "late"
    child = f"import time; time.sleep(1); open({str(late)!r}, 'w')"
    assert ends_well(f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)")
    time.sleep(2)
    assert not late.exists()


def test_without_namespaces_it_is_still_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    if os.geteuid() == 0 and os.stat(sys.base_prefix).st_uid == 0 and Path("/usr/bin/python3.11").exists():
        monkeypatch.setattr(sys, "executable", "/usr/bin/python3.11")  # root becomes nobody, who cannot read a Python of root's own
    sandbox._shut_in.cache_clear()
    try:
        assert sandbox._shut_in() == ()
        assert ends_well("assert True")
        assert not ends_well("while True: pass", seconds=1.0)
    finally:
        sandbox._shut_in.cache_clear()


def answers(monkeypatch: pytest.MonkeyPatch, reply: str) -> None:
    """The model writes `reply`, whatever it is asked."""
    import torch

    def write(self: Any, context: Any, max_length: int, **_: Any) -> Any:
        ids = self.tokenizer(f"{reply}<|im_end|>", add_special_tokens=False, return_tensors="pt").input_ids
        return torch.cat([context, ids.repeat(len(context), 1)], dim=1)

    monkeypatch.setattr(backends.HFLM, "_model_generate", write)


def test_the_harness_scores_written_code(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "problems.jsonl"
    write_jsonl(file, [ADD, ADD | {"text": "Subtract.", "test_list": ["assert add(2, 1) == 1"]}])
    name = f"rlver_mbpp:{file}"
    answers(monkeypatch, "```python\ndef add(a, b):\n    return a + b\n```")
    task = run_tasks(str(tiny_model), [name], None, 4, 0.05, 7, run_model_code=True)["tasks"][name]
    assert (task["metric"], task["value"], task["n"], task["as_chat"]) == ("pass@1", 0.5, 2, True)


def test_nothing_is_run_unless_it_may(tiny_model: Path):
    for name in ("rlver_mbpp", "rlver_humaneval:some.jsonl"):
        with pytest.raises(BenchmarkError, match=r"runs code that the model wrote: set benchmark\.run_model_code: true"):
            run_tasks(str(tiny_model), [name], None, 4, 0.05, 7)


def test_a_file_without_its_fields_is_one_line(tiny_model: Path, tmp_path: Path):
    write_jsonl(tmp_path / "p.jsonl", [TWICE, {"prompt": "def f(): ...", "test": "assert f"}])
    with pytest.raises(BadFile, match=r"p\.jsonl:2: rlver_humaneval needs the field entry_point"):
        run_tasks(str(tiny_model), [f"rlver_humaneval:{tmp_path / 'p.jsonl'}"], None, 4, 0.05, 7, run_model_code=True)


def test_a_prompt_that_is_no_python_by_itself_is_one_line(tiny_model: Path, tmp_path: Path):
    """No answer to it could be right: the function of the task is tried before that of the reply."""
    write_jsonl(tmp_path / "p.jsonl", [TWICE, TWICE | {"prompt": "def twice(x):\n    # Return x times two.\n"}])
    with pytest.raises(BadFile, match=r"p\.jsonl:2: the prompt is no Python by itself .* give its function a docstring"):
        run_tasks(str(tiny_model), [f"rlver_humaneval:{tmp_path / 'p.jsonl'}"], None, 4, 0.05, 7, run_model_code=True)
