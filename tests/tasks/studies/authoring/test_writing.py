"""Personas by a model over a real socket: valid, unlike each other, apart, bounded in calls, and the same from the same answers."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from author import LIBRARY, NUMBERS, ORDER, MoodyAuthor, author, base, name_of, person, says, scenario, title, write, writes
from scripted_server import MODEL, Asked, Reply, Server, good, key, parameters, serving

from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.needs import stated_need
from rlver.components.personas.schema import validate_personas
from rlver.components.personas.split import labelled_split
from rlver.components.users.llm.prompts import NEED_NAMES
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.tasks.studies.authoring.asking import PersonaOrder, Unwritten
from rlver.tasks.studies.authoring.casting import beginning
from rlver.tasks.studies.authoring.questions import PROMPTS
from rlver.tasks.studies.authoring.writer import Writer, Written


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def thing(number: int, order: PersonaOrder = ORDER) -> str:
    """A word that only the question for scenario `number` has."""
    return beginning(order, number).things[0] + ", " + beginning(order, number).things[1]


def test_sixteen_personas_take_eighteen_calls_and_are_valid() -> None:
    written, server = write(author)
    personas = written.personas

    validate_personas("p.jsonl", personas)
    assert len(personas) == 16 and Counter(map(title, server.asked)) == {"Scenario": 2, "Person": 16}
    assert written.report["answers"] == 18 and written.report["rejected"] == {"scenarios": {}, "personas": {}}
    assert written.report["most_alike"]["scenarios"] < 0.05 and written.report["most_alike"]["personas"] < 0.1
    for block in (personas[:8], personas[8:]):
        assert {one.hidden_need for one in block} == set(HiddenNeed)
        assert len({one.story.scenario_id for one in block if one.story}) == 1 and len({one.gender for one in block}) == 1
    assert len({one.story.scenario_id for one in personas if one.story}) == 2
    assert max(Counter(one.persona_class for one in personas).values()) == 6
    assert all(one.generator == f"rlver-authoring/1 {MODEL} prompts=v1-{PROMPTS.digest()}" for one in personas)
    assert all(one.name and one.name.split()[0] in one.portrait and one.occupation and one.occupation in one.portrait for one in personas)


def test_the_scripted_user_plays_them() -> None:
    async def talk(persona: Persona) -> list[str]:
        user = ScriptedSimulator("vanilla").session(persona, seed=1)
        said = [(await user.open()).text]
        for _ in range(12):
            await user.appraise("That sounds hard. What happened then?")
            said.append((await user.speak(50)).text)
        return said

    persona = write(author)[0].personas[0]
    said = asyncio.run(talk(persona))
    assert persona.story and said[0] == persona.first_line
    assert all(line in text for line, text in zip(persona.story.lines[:12], said[1:], strict=True))


COPY = {**LIBRARY.scenarios[0].model_dump(exclude={"id", "domain", "other"})}
LEAK = "I just want someone to listen to me for once tonight."
BAD_STORIES: list[tuple[str, Any]] = [
    ("malformed", says('{"topic": "a thing that was cut')),
    ("malformed", says("{}")),
    ("malformed", says("Sure! Here it is:\n{}")),
    ("malformed", writes(lines=["I have one line."])),
    ("malformed", writes(id="family-mine")),
    ("language", lambda asked: good(asked, text=json.dumps(scenario("x", "zh"), ensure_ascii=False))),
    ("language", writes(present="木桥已经拆掉了，只剩下河")),
    ("leak", writes(openers=[LEAK, "I put it there.", "I left it."])),
    ("leak", writes(feels_like="I don't know what to do.")),
    ("leak", writes(topic="a man who needs sincere praise")),
    ("leak", writes(openers=["I only want to know what {other} was thinking that evening.", "I put it there.", "I left it."])),
    ("wording", writes(topic="{other} sold the boat without a word")),
    ("wording", writes(present="{other: my landlord} took the keys back.")),
    ("wording", writes(cause="My sister sold the boat on Monday.")),
    ("wording", writes(deeds=["she kept it", "you kept it", "you held it", "you saw it"])),
    ("wording", writes(openers=["Is this what it has come to?", "I put it there.", "I left it."])),
    ("wording", writes(present="{friend} left.")),
    ("wording", writes(lines=[f"I put {'stones ' * 70}there {k}." for k in range(14)])),
    ("duplicate", lambda asked: good(asked, text=json.dumps(COPY))),
    ("duplicate", writes(openers=[LIBRARY.scenarios[3].openers[0], "I put it there.", "I left it."])),
    ("cut off", says('{"topic": "a thi', finish="length")),
    ("withheld", says("I cannot write this.", finish="content_filter")),
]


@pytest.mark.parametrize("start", range(0, len(BAD_STORIES), 3))
def test_a_bad_story_is_counted_by_kind_and_asked_again(start: int) -> None:
    """Up to three bad answers in a row, as many as may be repaired; all kinds of them in turn."""
    bad = BAD_STORIES[start : start + 3]
    written, server = write(MoodyAuthor({thing(0): [answer for _, answer in bad]}))

    assert written.report["rejected"] == {"scenarios": dict(sorted(Counter(kind for kind, _ in bad).items())), "personas": {}}
    assert len(server.asked) == written.report["answers"] == 18 + len(bad)
    validate_personas("p.jsonl", written.personas)
    assert len(written.personas) == 16


def test_a_bad_person_is_counted_by_kind_and_asked_again() -> None:
    names = [str(one.name) for one in write(author)[0].personas]
    same = dict.fromkeys(("habits", "speech", "manner"), "NAME sits at the same window each day and counts the trains that go by.")

    def stands_out(asked: Asked) -> Reply:
        values = person("x", name_of(asked)) | {key: text.replace("NAME", name_of(asked)) for key, text in same.items()}
        return good(asked, text=json.dumps(values))

    bad = {
        names[0]: [says("no"), writes(occupation="teacher"), writes(occupation="a software tester")],
        names[1]: [writes(habits="Nobody is named here at all."), writes(hobbies=["木工活儿", "钓鱼", "下棋"])],
        names[2]: [writes(manner="I need some advice from anyone who is here.")],
        names[3]: [stands_out],
        names[4]: [stands_out],
    }
    written, server = write(MoodyAuthor(bad), answers=Path("other.db"))

    assert written.report["rejected"]["personas"] == {"duplicate": 1, "language": 1, "leak": 1, "malformed": 1, "wording": 3}
    assert len(server.asked) == written.report["answers"] == 18 + 7
    assert "same window" in written.personas[3].portrait and "same window" not in written.personas[4].portrait


def test_the_model_is_told_what_was_wrong_under_a_key_of_its_own() -> None:
    _, server = write(MoodyAuthor({thing(1): [says("{}")]}))
    first, second = [asked for asked in server.asked if thing(1) in asked.content]

    assert "topic: Field required" in second.content and second.content.startswith(first.content)
    assert first.body["seed"] != second.body["seed"]


def test_a_story_told_twice_is_taken_once_whichever_answer_comes_first() -> None:
    """Scenarios 0 and 1 get the same story; 0 is the slower one and keeps it."""
    order = PersonaOrder("en", "train", 24, seed=7)

    def run(slow: int) -> Written:
        twice = json.dumps(scenario("told twice"))
        bad = {thing(k, order): [lambda asked, k=k: good(asked, text=twice, wait_s=0.3 if k == slow else 0.0)] for k in (0, 1)}
        return write(MoodyAuthor(bad), order, answers=Path(f"{slow}.db"))[0]

    first, second = run(slow=0), run(slow=1)
    assert first == second
    assert first.report["rejected"]["scenarios"] == {"duplicate": 1}
    assert first.personas[0].topic == scenario("told twice")["topic"] != first.personas[8].topic


def test_a_model_that_never_gets_it_right_ends_the_run_after_bounded_calls() -> None:
    async def run() -> Server:
        async with serving(lambda number, asked: good(asked, text="{}")) as server:
            async with open_endpoint(parameters(server.url), key, Path("a.db"), replay=False) as endpoint:
                with pytest.raises(
                    Unwritten, match=r"scenario 1 \(\w+\): none of 4 answers could be used; the last: malformed: .*; rejected so"
                ):
                    await Writer(endpoint, ORDER, NUMBERS, 16, LIBRARY, ()).write(lambda personas: None)
            return server

    assert len(asyncio.run(run()).asked) == 2 * 4  # both scenarios, 1 + max_repairs times; no persona


def test_too_few_names_are_found_before_anything_is_asked() -> None:
    asked: list[int] = []

    def script(number: int, one: Asked) -> Reply:
        asked.append(number)
        return author(number, one)

    with pytest.raises(ValueError, match="names of the test split are used up"):
        write(script, PersonaOrder("zh", "test", 300, seed=7))
    assert not asked


def test_an_empty_answer_is_malformed_and_another_is_asked_for() -> None:
    written, server = write(MoodyAuthor({thing(0): [says("")]}))
    assert written.report["answers"] == len(server.asked) == 19 and written.report["rejected"]["scenarios"] == {"malformed": 1}


def test_a_longer_order_begins_with_the_shorter_and_pays_for_the_rest_only() -> None:
    short, server = write(author, PersonaOrder("en", "train", 12, seed=7))
    longer, again = write(author, PersonaOrder("en", "train", 20, seed=7))

    assert longer.personas[:12] == short.personas
    assert (len(server.asked), len(again.asked)) == (2 + 12, 1 + 8)


def test_another_seed_gives_others_and_the_same_answers_the_same() -> None:
    one, _ = write(author)
    again, idle = write(author)
    other, _ = write(author, PersonaOrder("en", "train", 16, seed=8))

    assert one == again and not idle.asked
    assert not {one.persona_id for one in one.personas} & {one.persona_id for one in other.personas}


@pytest.mark.parametrize("code", ["en", "zh"])
def test_nobody_tells_the_model_a_need_so_no_question_depends_on_it(code: str) -> None:
    _, server = write(author, PersonaOrder(code, "train", 16, seed=7), answers=Path(f"{code}.db"))
    told = [message["content"] for asked in server.asked for message in asked.body["messages"][1:]]

    assert len(told) == 18
    names = [name for names in NEED_NAMES.values() for name in names.values()]
    assert not [text for text in told if stated_need(text) or any(name in text for name in names)]


def test_train_and_test_are_apart_even_when_the_model_repeats_itself() -> None:
    """The first story of the test run copies the first of the train run."""
    train = write(author)[0].personas
    order = PersonaOrder("en", "test", 16, seed=7)
    copied = json.dumps(scenario(next(base(asked) for asked in _scenario_questions(ORDER))))
    test, _ = write(MoodyAuthor({thing(0, order): [says(copied)]}), order, known=train)

    assert test.report["rejected"]["scenarios"] == {"duplicate": 1}
    assert labelled_split(train, test.personas) == list(test.personas)
    assert not {str(one.name).split()[0] for one in train} & {str(one.name).split()[0] for one in test.personas}
    things = [{thing for k in range(50) for thing in beginning(PersonaOrder("en", split, 8, 7), k).things} for split in ("train", "test")]
    assert things[0] and things[1] and not things[0] & things[1]


def test_the_model_is_asked_to_stay_clear_of_what_has_been_told() -> None:
    train = write(author, PersonaOrder("en", "train", 64, seed=7))[0].personas  # a scenario of each domain
    order = PersonaOrder("en", "test", 8, seed=7)
    (asked,) = [asked for asked in write(author, order, known=train)[1].asked if title(asked) == "Scenario"]
    domain = beginning(order, 0).domain.name
    topics = {one.topic for one in train if one.story and one.story.domain == domain} | {
        one.topic for one in LIBRARY.scenarios if one.domain == domain
    }

    assert len(topics) == 9 and all(f"\n- {topic}\n" in asked.content for topic in topics)


def _scenario_questions(order: PersonaOrder) -> list[Asked]:
    return [asked for asked in write(author, order, answers=Path("fresh.db"))[1].asked if title(asked) == "Scenario"]


def test_library_personas_and_written_ones_form_a_clean_split() -> None:
    _, test = compose_personas(LIBRARY, 7, train=8, test=16)
    assert labelled_split(write(author)[0].personas, test) == test


def test_chinese_personas_are_valid_and_the_scripted_user_refuses_them() -> None:
    written, server = write(author, PersonaOrder("zh", "train", 9, seed=7))

    validate_personas("p.jsonl", written.personas)
    assert len(server.asked) == 2 + 9 and {one.language for one in written.personas} == {"zh"}
    one = written.personas[0]
    assert one.name and one.story and one.background.count(one.name) > 3
    assert "{" not in "".join((one.background, one.portrait, str(one.first_line), *one.story.lines, *one.reactions.values()))
    assert one.need_text not in one.background and sorted(one.reactions) == sorted(("S", "A", "B", "C", "F", "serves", "misses"))
    with pytest.raises(ValueError, match=r"scripted user speaks English only; for zh set simulator\.kind: llm"):
        asyncio.run(ScriptedSimulator("vanilla").session(one, seed=1).open())


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("leak", writes(openers=["我就是想有人听我说说话，今晚也行", "我把碗放下了", "我走了"])),
        ("leak", writes(present="我真不知道该怎么办了")),
        ("leak", writes(openers=["我和{other}吵完以后就想听点建议。", "我把碗放下了", "我走了"])),
        ("language", writes(present="The bridge is gone and only the river is left.")),
        ("wording", writes(openers=["这算什么事？", "我把碗放下了", "我走了"])),
        ("wording", writes(deeds=["她收好了碗", "你收好了碗", "你洗了碗", "你买了碗"])),
    ],
)
def test_a_bad_chinese_story_is_counted(kind: str, answer: Any) -> None:
    order = PersonaOrder("zh", "train", 8, seed=7)
    things = "、".join(beginning(order, 0).things)
    written, _ = write(MoodyAuthor({things: [answer]}), order)
    assert written.report["rejected"] == {"scenarios": {kind: 1}, "personas": {}}


def test_the_order_of_arrival_changes_nothing() -> None:
    rng = random.Random(3)

    def late(number: int, asked: Asked) -> Reply:
        return good(asked, text=author(number, asked).body and json.loads(author(number, asked).body)["choices"][0]["message"]["content"],
                    wait_s=rng.random() * 0.05)  # fmt: skip

    assert write(late, answers=Path("late.db"))[0] == write(author, answers=Path("prompt.db"))[0]
