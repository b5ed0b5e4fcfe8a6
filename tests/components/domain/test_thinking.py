"""Think-then-say: the split is total, and no thought ever ends up in what the user hears."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlver.components.domain.thinking import CLOSE, OPEN, Said, separate_thought, split_thought, system_prompt


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>hm</think>Hello.", Said("hm", "Hello.", True)),
        ("  <think>\nhm\n</think>\n\nHello.\n", Said("hm", "Hello.", True)),
        ("Hello.", Said("Hello.", "", False)),  # the tags are missing
        ("<think>hm Hello.", Said("<think>hm Hello.", "", False)),  # never closed
        ("hm</think>Hello.", Said("hm</think>Hello.", "", False)),  # never opened
        ("Well <think>hm</think>Hello.", Said("Well <think>hm</think>Hello.", "", False)),  # speaks before it thinks
        ("<think>a</think>b<think>c</think>d", Said("<think>a</think>b<think>c</think>d", "", False)),  # doubled
        ("<think><think>a</think>b", Said("<think><think>a</think>b", "", False)),
        ("<think></think>Hello.", Said(None, "Hello.", False)),  # an empty thought
        ("<think>hm</think>", Said("hm", "", False)),  # says nothing
        ("", Said(None, "", False)),
    ],
)
def test_a_thinking_turn(text: str, said: Said) -> None:
    assert split_thought(text, thinking=True) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" Hello. ", Said(None, "Hello.", True)),
        ("", Said(None, "", False)),
        ("<think>hm</think>Hello.", Said("<think>hm</think>Hello.", "", False)),
        ("Hello.</think>", Said("Hello.</think>", "", False)),
    ],
)
def test_a_direct_turn(text: str, said: Said) -> None:
    assert split_thought(text, thinking=False) == said


@given(st.lists(st.sampled_from([OPEN, CLOSE, "secret", " ", "\n", "hi"])).map("".join), st.booleans())
def test_no_tag_ever_reaches_the_user(text: str, thinking: bool) -> None:
    said = split_thought(text, thinking)
    assert OPEN not in said.reply and CLOSE not in said.reply
    assert not (thinking and CLOSE not in text and said.reply), "without a closing tag everything may be a thought"
    assert not said.well_formed or said.reply


@given(st.lists(st.sampled_from([OPEN, CLOSE, "secret", " ", "\n", "hi"])).map("".join))
def test_of_a_foreign_models_text_no_thought_and_no_tag_is_in_the_reply(text: str) -> None:
    """A thought is what stands before a closing tag, or after an opening one that is never closed."""
    think, reply = separate_thought(text)
    assert OPEN not in reply and CLOSE not in reply
    before, _, rest = text.rpartition(CLOSE)
    after, _, unclosed = rest.partition(OPEN)
    assert reply.strip() == after.strip()
    assert reply == text or think is not None or not f"{before}{unclosed}".replace(OPEN, "").strip()


def test_the_two_prompts_differ_in_asking_for_a_thought() -> None:
    assert OPEN in system_prompt(thinking=True) and CLOSE in system_prompt(thinking=True)
    assert OPEN not in system_prompt(thinking=False)


def test_a_chinese_user_gets_a_policy_that_is_spoken_to_in_chinese() -> None:
    for thinking in (True, False):
        chinese = system_prompt(thinking, "zh")
        assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese) and system_prompt(thinking).isascii()
        assert (OPEN in chinese and CLOSE in chinese) is thinking
