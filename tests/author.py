"""A model that writes well: what it answers is unlike anything else, and a function of what it was asked. And one that writes badly."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripted_server import MODEL, Asked, Reply, Script, Server, good, key, parameters, serving

from rlver.components.domain.persona import Persona
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.personas.library import load_library
from rlver.tasks.studies.authoring.asking import PersonaOrder, WriterParameters
from rlver.tasks.studies.authoring.writer import Writer, Written

_NOUNS = (
    "acorn anchor anvil apron arch attic axle badge barge basin basket beacon beak bench birch blade blossom bonnet bottle bramble brick "
    "bridge bristle broom bucket buckle bugle cabin cable candle canvas carriage cedar chalk chapel chisel cider clover cobble comet copper "
    "cork cradle crane crate creek crown cuff curtain cushion dairy dial ditch dome donkey dove drawer drum dune eagle easel elm ember engine "
    "fern ferry fiddle flask flint float flour forge fountain fox gable garlic gate glacier glove goose grape gravel hammer harbour harness "
    "hatch hazel heron hinge hollow honey hook horn island ivy jetty jug kennel kerb kiln knot ladle lantern larch lark latch lawn ledge lever "
    "lily lime linen loft lute maple marble marsh mast meadow mill mint moss mule nest nettle oak oat onion orchard otter oven owl paddle palm "
    "parsley pasture pear pebble pepper pier pillar pine pipe planet plough plum pocket pond poppy porch powder quarry quill quilt raft rail "
    "raven reed ribbon ridge river robin roof rope rose rudder rug saddle sail salt sand scale shell shore sickle silk slate sleeve snail "
    "spade spark sparrow spoon spring spruce stable stamp steam stone straw stream sugar swan table tar teapot thistle thorn thread thumb "
    "timber tin torch tower trout trunk tulip turnip twig valley velvet vine violet wagon walnut wharf wheat wick willow wren yarn yew"
)
NOUNS = _NOUNS.split()
HAN = (
    "山水木石花草鱼鸟云雨风雪江河湖海灯桌椅窗门墙瓦砖绳针线布纸笔墨茶酒米面盐糖油锅碗盆勺刀叉瓶罐箱柜床枕被毯衣裤鞋帽伞扇表钟琴鼓笛棋牌书画信票钱包车船桥路井田园林竹松梅兰菊荷柳桃李杏枣栗"
    "瓜豆葱姜蒜椒笋菇蜂蝶蚕鸡鸭鹅牛羊马兔猫狗鹿鹤雁燕鹊龟虾蟹贝沙泥炭火烟灰铁铜锡银金玉珠"
)


def title(asked: Asked) -> str:
    """Scenario or Person, by the schema that is asked for."""
    return str(asked.body["response_format"]["json_schema"]["schema"]["title"])


def base(asked: Asked) -> str:
    """The question without the words of a repair."""
    return asked.content.partition("\n\nAn earlier answer")[0].partition("\n\n之前的回答")[0]


def language(asked: Asked) -> str:
    return "zh" if "用中文回答" in asked.content else "en"


def scenario(seed: object, code: str = "en", **changes: Any) -> dict[str, Any]:
    """A scenario of words that nobody else puts side by side."""
    say = _Words(random.Random(f"{seed}|{code}"), code)
    values: dict[str, Any] = {
        "topic": say.clause(),
        "ages": [21, 48],
        "cause": f"{{name}} {say.clause()} {{other}} {say.clause()}",
        "timeline": [{"day": day, "event": f"{{name}} {say.clause()}", "feeling": say.clause()} for day in (-30, -12, -5, -1)],
        "conflict": {"event": f"{{other}} {say.clause()}", "people": "{name} and {other}" if code == "en" else "{name}和{other}",
                     "inner_cause": say.clause()},
        "attempts": [say.clause() for _ in range(2)],
        "present": say.clause(),
        "feels_like": say.clause(),
        "openers": [say.clause() for _ in range(3)],
        "lines": [say.clause() for _ in range(14)],
        "deeds": [say.you() for _ in range(4)],
        "steps": [say.clause() for _ in range(4)],
        "motives": [say.clause() for _ in range(4)],
        "own_part": [say.you() for _ in range(3)],
        "hurts": [say.clause() for _ in range(4)],
    }  # fmt: skip
    return values | changes


def person(seed: object, name: str, code: str = "en", **changes: Any) -> dict[str, Any]:
    say = _Words(random.Random(f"{seed}|{code}"), code)
    values: dict[str, Any] = {
        "occupation": f"a {say.rng.choice(NOUNS)} maker" if code == "en" else f"{say.rng.choice(HAN)}铺伙计",
        "hobbies": [say.clause() for _ in range(3)],
        **{key: f"{name} {say.clause()} {say.clause()}" for key in ("habits", "speech", "manner")},
    }
    return values | changes


class _Words:
    def __init__(self, rng: random.Random, code: str) -> None:
        self.rng, self._code = rng, code

    def clause(self) -> str:
        if self._code == "zh":
            return f"我把{self._han()}和{self._han()}放到{self._han()}边上，{self._han()}也{self._han()}了"
        a, b, c, d, e, f = self.rng.sample(NOUNS, 6)
        return f"I put {a} {b} by the {c} {d} and {e} {f}"

    def you(self) -> str:
        return self.clause().replace("我", "你", 1) if self._code == "zh" else f"you{self.clause().removeprefix('I')}"

    def _han(self) -> str:
        return "".join(self.rng.sample(HAN, 2))


def name_of(asked: Asked) -> str:
    """What a portrait calls the persona: stands in the instructions."""
    system = str(asked.body["messages"][0]["content"])
    if language(asked) == "zh":
        return system.rpartition("至少出现一次")[2].strip("。\n ")
    return system.rpartition("use the name ")[2].split()[0]


def written(asked: Asked) -> dict[str, Any]:
    """The good answer to the question."""
    code = language(asked)
    return scenario(base(asked), code) if title(asked) == "Scenario" else person(base(asked), name_of(asked), code)


def author(number: int, asked: Asked) -> Reply:
    """The script of a server whose model always writes well."""
    return good(asked, text=json.dumps(written(asked), ensure_ascii=False))


Answer = Callable[[Asked], Reply]


class MoodyAuthor:
    """Writes badly at first: `bad` has, for a word of a question, the answers to its first attempts. Then it writes well."""

    def __init__(self, bad: Mapping[str, Sequence[Answer]]) -> None:
        self._bad = bad
        self._attempts: Counter[str] = Counter()

    def __call__(self, number: int, asked: Asked) -> Reply:
        question = base(asked)
        attempt = self._attempts[question]
        self._attempts[question] += 1
        answers = next((answers for word, answers in self._bad.items() if word in question), ())
        return answers[attempt](asked) if attempt < len(answers) else author(number, asked)


def says(text: str, finish: str = "stop") -> Answer:
    return lambda asked: good(asked, text=text, finish=finish)


def writes(**changes: Any) -> Answer:
    """The good answer with other values under some keys."""
    return lambda asked: good(asked, text=json.dumps(written(asked) | changes, ensure_ascii=False))


NUMBERS = WriterParameters(
    model=MODEL, temperature=1.0, top_p=0.95, scenario_max_tokens=4000, persona_max_tokens=1200, max_repairs=3, personas_per_scenario=8,
    run_words=5, max_overlap=0.2,
)  # fmt: skip
LIBRARY = load_library()
ORDER = PersonaOrder("en", "train", 16, seed=7)


def write(
    script: Script, order: PersonaOrder = ORDER, known: Sequence[Persona] = (), answers: Path | None = None
) -> tuple[Written, Server]:
    """Everything the writer does, against a server that follows the script."""

    async def run() -> tuple[Written, Server]:
        async with (
            serving(script) as server,
            open_endpoint(parameters(server.url), key, answers or Path("answers.db"), replay=False) as endpoint,
        ):
            writer = Writer(endpoint, order, NUMBERS, 16, LIBRARY, known)
            return await writer.write(lambda personas: None), server

    return asyncio.run(run())
