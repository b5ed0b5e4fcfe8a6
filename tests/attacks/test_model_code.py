"""What a program that a model wrote tries in its sandbox: forging its verdict, stopping the benchmark, reaching the machine."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlver.components.ability import jail, sandbox
from rlver.components.ability.sandbox import ends_well
from rlver.components.ability.tasks import humaneval_program, mbpp_program

IS_ROOT = os.geteuid() == 0
ROOT_ONLY = pytest.mark.skipif(not IS_ROOT, reason="only root can become nobody")
TWICE = {
    "prompt": 'def half(x):\n    return x / 2\n\n\ndef twice(x):\n    """Twice x."""\n',
    "entry_point": "twice",
    "test": "def check(candidate):\n    assert candidate(half(6)) == 6\n    assert candidate(half(8)) == 8\n",
}
PAIRS: dict[str, Any] = {"text": "Sum.", "test_setup_code": "", "test_list": ["assert set(pairs([1, 2])) == {(1, 2)}"]}

# Runs a program in a process of its own, with little memory: what would stop the benchmark ends this process, or its time is over.
TRY = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30));"
    "from rlver.components.ability.sandbox import ends_well; print(ends_well(sys.stdin.read(), 5.0))"
)


def verdict(program: str) -> str:
    """What a process that tries the program says of it. Raises TimeoutExpired where it hangs."""
    command = (sys.executable, "-c", TRY)
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


def has_namespaces() -> bool:
    tried = ("unshare", *(() if IS_ROOT else ("--map-root-user",)), "--net", "--pid", "--mount", "--fork", "true")
    return shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True, check=False).returncode == 0


SHUT_IN = pytest.mark.skipif(not has_namespaces(), reason="this system lets no user make namespaces: unshare is missing or forbidden")


@pytest.fixture
def without_namespaces(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As on a system that gives none. Where only root may read our Python, the system's own is the one that is shut in."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    sandbox._shut_in.cache_clear()
    try:
        sandbox.make_sure()
    except sandbox.SandboxError:
        if not Path("/usr/bin/python3.11").exists():
            pytest.skip("no Python here that nobody may read")
        monkeypatch.setattr(sys, "executable", "/usr/bin/python3.11")
    yield
    sandbox._shut_in.cache_clear()


# The verdict: what passes no test must not be said to pass.


@pytest.mark.parametrize(
    "reply",
    [
        # the old verdict: a token in the program's own source
        "import os, re\nprint(re.findall('[0-9a-f]{32}', open('program.py').read())[-1], flush=True)\nos._exit(0)",
        # the expected value, from the frame that calls
        "import linecache, re, sys\ndef twice(x):\n    f = sys._getframe(1)\n"
        "    lines = open(f.f_code.co_filename).read().splitlines()\n    return int(lines[f.f_lineno - 1].rpartition('== ')[2])",
        "class Same:\n    __eq__ = lambda *_: True\n    __ne__ = lambda *_: False\ndef twice(x):\n    return Same()",
        "class Same(int):\n    __eq__ = lambda *_: True\n    __hash__ = int.__hash__\ndef twice(x):\n    return Same()",
        # the helpers of the tests
        "import sys\ndef twice(x):\n    sys._getframe(1).f_globals['check'] = sys._getframe(1).f_globals['half'] = lambda *_: 0\n    return Same()\n"
        "class Same(float):\n    __eq__ = lambda *_: True",
        "def half(x):\n    return 0\n\n\ndef twice(x):\n    raise SystemExit(0)",
        "import atexit, os\natexit.register(os._exit, 0)\ndef twice(x):\n    return 0",
        # whoever asks, over every descriptor there is
        "import os\nfor number in range(64):\n    try:\n        os.write(number, bytes([0, 0, 0, 2]) + b'{}' + bytes([0, 0, 0, 9]) + b'[true, 6]')\n"
        "    except OSError:\n        pass\ndef twice(x):\n    return 0",
    ],
)
def test_a_program_cannot_forge_its_verdict(reply: str) -> None:
    assert not ends_well(humaneval_program(TWICE, f"```python\n{reply}\ndef _(): 'def twice'\n```"))
    assert ends_well(humaneval_program(TWICE, "```python\ndef twice(x):\n    return 2 * x\n```")), "what is right must pass"


def test_a_program_cannot_replace_the_builtins_its_tests_use() -> None:
    assert not ends_well(mbpp_program(PAIRS, "```python\nset = lambda _: {(1, 2)}\ndef pairs(x):\n    return []\n```"))
    assert not ends_well(mbpp_program(PAIRS, "```python\nimport builtins\nbuiltins.set = lambda _: {(1, 2)}\ndef pairs(x): return []\n```"))
    assert ends_well(mbpp_program(PAIRS, "```python\ndef pairs(x):\n    return zip(x, x[1:])\n```")), "an iterator is an iterator"


def test_objects_of_the_program_can_be_made_changed_and_handed_back() -> None:
    """What is not a plain value stays with the program; the tests ask for it, as those of MBPP do with nodes and pairs."""
    reply = (
        "```python\nclass Node:\n    def __init__(self, value):\n        self.value, self.left = value, None\n"
        "def depth(node):\n    return 0 if node is None else 1 + depth(node.left)\n```"
    )
    row = {
        "test_setup_code": "root = Node(1)\nroot.left = Node(2)",
        "test_list": ["assert depth(root) == 2", "assert root.left.value == 2"],
    }
    assert ends_well(mbpp_program(row, reply))
    assert not ends_well(mbpp_program(row | {"test_list": ["assert depth(root) == 3"]}, reply))


@pytest.mark.parametrize(
    "value",
    ["7 ** 9000", "{(1, 2.5): [None, True, b'x', 2 + 3j]}", "frozenset([1])", "float('-inf')", "'\\ud800 \\x00'", "range(3)", "__import__('fractions').Fraction(1, 3)"],
)  # fmt: skip
def test_plain_values_come_over_as_they_are(value: str) -> None:
    row = {"test_list": [f"assert same({value}) == {value}", f"assert type(same({value})) is type({value})"]}
    assert ends_well(mbpp_program(row, "```python\ndef same(x):\n    return x\n```"))


# The benchmark: no program stops it.


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os\nif os.path.exists('output'): os.unlink('output')\nos.mkfifo('output')", "True"),
        ("import os\nif os.path.exists('output'): os.unlink('output')\nos.symlink('/dev/zero', 'output')", "True"),
        ("import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')", "True"),
        ("import os\nos.makedirs('a/b'); os.chmod('a/b', 0); os.chmod('a', 0)", "True"),
        ("text = '\\ud800'; (", "False"),
    ],
    ids=["an output that is a FIFO", "an output without end", "3,000 nested folders", "closed folders", "no Python"],
)
def test_whatever_a_program_leaves_behind_the_benchmark_goes_on(program: str, said: str) -> None:
    assert verdict(program) == said


@pytest.mark.long
@pytest.mark.parametrize("text", ["'x' * (50 << 20)", "[[]] * (20 << 20)", "deep()", "10 ** 10 ** 7"])
def test_an_answer_of_any_size_is_only_wrong(text: str) -> None:
    reply = f"```python\ndef deep():\n    found = []\n    for _ in range(10 ** 5): found = [found]\n    return found\ndef f():\n    return {text}\n```"
    assert not ends_well(mbpp_program({"test_list": ["assert f() == 1"]}, reply), seconds=2.0)


def test_a_lone_surrogate_in_a_reply_is_a_wrong_answer() -> None:
    assert not ends_well("x = '\ud800'")


# The machine.

FORKS = "import os, time\nmade = 0\nfor _ in range(150):\n    try:\n        child = os.fork()\n    except OSError:\n        break\n"
FORKS += "    if child == 0:\n        time.sleep(30)\n        os._exit(0)\n    made += 1\nassert made < 100, made"


def test_forks_are_bounded_for_root_too() -> None:
    assert ends_well(FORKS)


def test_forks_are_bounded_without_namespaces(without_namespaces: None) -> None:
    assert ends_well(FORKS)


@ROOT_ONLY
@pytest.mark.parametrize("namespaces", [True, False])
def test_root_becomes_nobody(namespaces: bool, request: pytest.FixtureRequest) -> None:
    if not namespaces:
        request.getfixturevalue("without_namespaces")
    assert ends_well("import os; assert (os.getuid(), os.geteuid(), os.getgid(), os.getgroups()) == (65534, 65534, 65534, [])")
    assert not ends_well("import os; os.setuid(0)")


@ROOT_ONLY
def test_root_is_refused_where_nobody_may_read_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(private / "python"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    sandbox._shut_in.cache_clear()
    try:
        with pytest.raises(sandbox.SandboxError, match=r"cannot be shut in here \(.*Permission denied.*\): as root, Python must lie where"):
            sandbox.make_sure()
    finally:
        sandbox._shut_in.cache_clear()


@SHUT_IN
def test_a_program_sees_nothing_of_the_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    secret = tmp_path / "secret"
    secret.write_text("key")
    assert not ends_well(f"open({str(secret)!r})")
    assert not ends_well(f"open({str(tmp_path / 'written')!r}, 'w')")
    assert not ends_well("import os; os.kill(os.getppid(), 9); os.listdir('/proc')")
    assert ends_well("import os; assert set(os.listdir('/')) <= {'usr', 'bin', 'lib', 'lib64', 'etc', 'nix', 'dev', 'box', *ROOTS}".replace(
        "*ROOTS", ", ".join(repr(Path(path).parts[1]) for path in (*sandbox._PYTHON, sandbox._TRIAL))
    ))  # fmt: skip
    assert not ends_well("open('/usr/written', 'w')") and not (tmp_path / "written").exists()


@SHUT_IN
def test_a_program_cannot_fill_the_disk() -> None:
    assert not ends_well("for number in range(30):\n    open(f'large{number}', 'wb').write(bytes(9 << 20))")


def test_bounds_that_the_system_does_not_take_are_an_error_and_tighter_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    tighter, free = (100, 100), (jail.resource.RLIM_INFINITY, jail.resource.RLIM_INFINITY)
    bounds = {jail.resource.RLIMIT_NOFILE: tighter, jail.resource.RLIMIT_FSIZE: free}
    monkeypatch.setattr(jail.resource, "getrlimit", bounds.__getitem__)
    monkeypatch.setattr(jail.resource, "setrlimit", bounds.__setitem__)
    for kind in list(bounds):
        jail.limit(kind, 5000)
    assert list(bounds.values()) == [(100, 100), (5000, 5000)]

    def refuses(*_: object) -> None:
        raise ValueError("not taken here")

    monkeypatch.setattr(jail.resource, "setrlimit", refuses)
    with pytest.raises(ValueError, match="not taken here"):
        jail.limit(jail.resource.RLIMIT_FSIZE, 5000)


@pytest.mark.parametrize(("platform", "bounds_memory"), [("linux", True), ("darwin", False)])
def test_memory_is_bounded_where_the_system_can(monkeypatch: pytest.MonkeyPatch, platform: str, bounds_memory: bool) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    limits = runpy.run_path(str(jail.__file__), run_name="jail")["LIMITS"]
    assert ("AS" in limits) is bounds_memory and {"FSIZE", "NPROC", "NOFILE", "CORE"} <= limits.keys()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to the jail")
def test_what_leaves_its_session_is_ended_without_namespaces(without_namespaces: None, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o755)
    late = tmp_path / "late"
    child = f"import time; time.sleep(1.5); open({str(late)!r}, 'w')"
    start = f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    assert ends_well(start)
    assert not ends_well(f"{start}\nwhile True: pass", seconds=1.0)
    time.sleep(2)
    assert not late.exists()
