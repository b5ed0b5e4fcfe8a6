from __future__ import annotations

from pathlib import Path

import pytest

from rlver.components.ability.tasks import SAMPLE, is_right, last_boxed, load_problems
from rlver.components.domain.files import BadFile, write_jsonl


@pytest.mark.parametrize(
    ("reply", "boxed", "why"),
    [
        (r"The answer is \boxed{42}.", "42", "plain"),
        (r"\boxed{1} and then \boxed{2}", "2", "the last one counts"),
        (r"so $\boxed{\frac{1}{2}}$", r"\frac{1}{2}", "nested braces"),
        (r"\boxed{\sqrt{\frac{a}{b^{2}}}} done }", r"\sqrt{\frac{a}{b^{2}}}", "deeper, with a stray brace after"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}", "escaped braces are text"),
        (r"\boxed{\left\{x \right.}", r"\left\{x \right.", "an unbalanced escaped brace is text"),
        (r"\boxed {7}", "7", "a space before the brace"),
        (r"\fbox{7}", "7", "the other box"),
        (r"\boxed{}", "", "an empty box"),
        ("the answer is 42", None, "no box"),
        ("$42$", None, "dollar signs are not a box"),
        (r"\boxed{12} wait, \boxed{1", None, "the final answer was cut off"),
        (r"\boxed{3\\", None, "cut off at a backslash"),
        ("", None, "nothing"),
    ],
)
def test_the_last_box_is_read(reply: str, boxed: str | None, why: str):
    assert last_boxed(reply) == boxed, why


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("42", " 42. "),
        ("$42$", "42"),
        (r"\dfrac{3}{4}", r"\frac34"),
        (r"\tfrac3{4}", r"\frac{3}{4}"),
        ("3/4", r"\frac{3}{4}"),
        (r"\frac{-1}{2}", r"-\frac{1}{2}"),
        ("-1/2", r"-\frac{1}{2}"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        (r"90^\circ", "90"),
        (r"90^{\circ}", "90"),
        (r"12\%", "12"),
        (r"\$18.90", "18.90"),
        (r"10\text{ cm}", "10"),
        (r"10\,\text{ cm}", "10"),
        (r"5\mathrm{cm}^2", "5"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"10{,}000", "10000"),
        ("10,000", "10000"),
        (r"1,\!000", "1000"),
        (r"\sqrt3", r"\sqrt{3}"),
        ("x=5", "5"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        (r"6 \sqrt {2}", r"6\sqrt{2}"),
        ("0.5", "1/2"),
        ("0.5", r"\frac{1}{2}"),
        ("(x-1)(x+1)", "x^2-1"),
        (r"x \in [-2,7]", "[-2,7]"),
    ],
)
def test_the_same_answer_is_right_however_it_is_written(one: str, other: str):
    assert is_right(f"\\boxed{{{one}}}", other) and is_right(f"\\boxed{{{other}}}", one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,2", "12"),
        ("(1,234)", "(1234)"),
        ("1/2", "2/1"),
        ("-5", "5"),
        ("0.333333", "1/3"),
        (r"\sqrt{3}", "3"),
        ("x", "y"),
        ("1.5", "15"),
        ("", "0"),
    ],
)
def test_another_answer_is_wrong(one: str, other: str):
    assert not is_right(f"\\boxed{{{one}}}", other) and not is_right(f"\\boxed{{{other}}}", one)


@pytest.mark.long
@pytest.mark.parametrize("endless", ["9^{9^{9^{9}}}", "1" * 100_000, r"\text{" + " " * 100_000 + "}"])
def test_an_answer_that_nobody_can_work_out_is_wrong(endless: str):
    assert not is_right(f"\\boxed{{{endless}}}", "3")


def test_the_harness_trap_is_read_the_right_way_round():
    assert is_right(r"The answer is \boxed{42}.", "42")
    assert not is_right("$42$", "42")
    assert not is_right("42", "42")


def test_the_shipped_sample_loads_and_its_answers_are_right():
    problems = load_problems(SAMPLE)
    assert len(problems) >= 5
    assert all(is_right(f"\\boxed{{{problem['answer']}}}", problem["answer"]) for problem in problems)
    assert not any(is_right(r"\boxed{-1}", problem["answer"]) for problem in problems)


def test_bad_problem_files_are_named(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    write_jsonl(path, [{"problem": "p", "answer": "1"}, {"problem": "p", "answer": 1}])
    with pytest.raises(BadFile, match=r"m\.jsonl:2: a math problem needs"):
        load_problems(path)
    write_jsonl(path, [])
    with pytest.raises(BadFile, match="no problems"):
        load_problems(path)
