"""What of a reply was not said before."""

from __future__ import annotations

import pytest

from rlver.components.users.scripted.new import READ_WORDS, new_in

STORM = "I know that what came of it on the boat that night in the storm"


@pytest.mark.parametrize(
    ("reply", "earlier", "left"),
    [
        ("It was loud. You stayed.", [], "It was loud. You stayed."),
        ("  It was loud.\n\nYou stayed.", ["Nothing of it."], "  It was loud.\n\nYou stayed."),
        ("It was loud. You stayed.", ["Yes. It was loud!"], "You stayed."),
        ("It was loud that night.", ["I hear it was loud that night."], ""),
        ("It was loud. It was loud. You stayed.", [], "It was loud. You stayed."),
        ("It was loud... ", ["It was loud."], ""),
        ("", ["It was loud."], ""),
        ("...", ["..."], "..."),
        ("Yes. You stayed.", ["Yes. No."], "You stayed."),
        ("No. No! No, no.", [], "No. No, no."),
        ("I know it was your fault.", ["I know it was not your fault."], "I know it was your fault."),
        ("I know it was not your fault.", ["I know it was your fault."], "I know it was not your fault."),
        (f"{STORM} was not your fault.", [f"{STORM} was your fault."], f"{STORM} was not your fault."),
        (f"{STORM} was your fault.", [f"{STORM} was your own fault."], ""),
        (
            "It was so very brave of you to go and call your mother.",
            ["It was so very brave of you to go and call your sister."],
            "It was so very brave of you to go and call your mother.",
        ),
        ("What did you do?", ["What did you say?"], "What did you do?"),
        ("That\u2019s not on you, and so it is.", ["That's not on you."], ", and so it is."),
        ("Well, that was never yours to carry, as it is.", ["That was never yours to carry."], "Well, , as it is."),
        # said twice in one sentence
        ("None of this is your fault, none of this is your fault.", ["None of this is your fault."], ""),
        ("None of this is your fault, and none of this is your fault.", ["None of this is your fault."], ", and ."),
        ("I won't agree to that, apple river nine.", ["I won't agree to that, stone of blue."], ", apple river nine."),
        ("How well did you sleep last night?", ["How did you sleep last night?"], "How well did you sleep last night?"),
        # with a word that adds nothing, or as a part
        ("None of this is really your fault.", ["None of this is your fault."], ""),
        ("No none of this is your fault.", ["None of this is your fault."], "No ."),
        ("N\u200bone of th\u200bis is your fault.", ["None of this is your fault."], ""),
        ("That\u2018s not on you.", ["That's really not on you."], ""),
        ("It was not your fault.", ["It was not your fault and you did not do anything wrong."], ""),
        ("You did not do anything wrong.", ["It was not your fault and you did not do anything wrong."], ""),
        ("Really so.", ["Really so."], "Really so."),
        ("I hear you, and it was late.", ["I hear you."], "I hear you, and it was late."),
        ("You stayed.", ["And you stayed with her."], "You stayed."),
        ("Neither of you was late for it.", ["You was late for it."], "Neither of you was late for it."),
        # taken back
        ("Nobody here really thinks it was your fault.", ["It was your fault."], "Nobody here really thinks it was your fault."),
        ("I was wrong to say it was your fault.", ["It was your fault."], "I was wrong to say it was your fault."),
        ("Nobody knows why, it was your fault.", ["It was your fault."], "Nobody knows why, ."),
        ("You did well for her.", ["I never said you did well for her."], "You did well for her."),
        (f"{STORM} took your dad.", [f"{STORM} took your mum."], f"{STORM} took your dad."),
        ("You stayed until the end\nNobody warned you\nI mean it.", ["I mean it."], "You stayed until the end\nNobody warned you"),
    ],
)
def test_what_was_said_is_taken_out_and_the_rest_is_left_to_the_letter(reply: str, earlier: list[str], left: str) -> None:
    assert new_in(reply, tuple(earlier)) == left


def test_what_is_not_read_is_not_looked_at() -> None:
    said = "You had no way to know of the rocks."
    for words in (READ_WORDS - len(said.split()), READ_WORDS):
        late = " ".join(f"w{number}" for number in range(words)) + ". " + said
        assert (new_in(late, (said,)) == late) is (new_in(said, (late,)) == said) is (words == READ_WORDS)


def test_blank_lines_hide_nothing() -> None:
    said = "You had no way to know of the rocks."
    assert new_in("Hm." + "\n " * 2 * READ_WORDS + said, (said,)) == "Hm."
