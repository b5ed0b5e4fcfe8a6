"""What the library says of a persona in English, in Chinese: needs, reactions, classes, traits, styles, the story as prose.

The scripted user speaks English and refuses these personas; the LLM user plays them. `stated_need` finds Chinese texts in which a need
is given away.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence

from rlver.components.domain.persona import HiddenNeed, PersonaClass, Story
from rlver.components.personas.profiles import TRAIT_OF

_TRAITS = {trait: word for word, trait in TRAIT_OF.items()}

_CLASSES = {
    PersonaClass.NEGATIVE: "聊天时{name}爱顶撞、爱抱怨，会试探对方，说话不留情面。",
    PersonaClass.PASSIVE: "聊天时{name}多半是有问才答，让对方定节奏，很少反问。",
    PersonaClass.AVOIDANT: "聊天时{name}绕着痛处走，说一点就退一步，觉得安全了才靠近。",
}

_STYLES = {
    "plain": "{name}说话平实，都是家常话。", "terse": "{name}说话简短，常常只有几个字。", "rambling": "{name}说话絮叨，扯远了又绕回来。",
    "dry": "{name}说话冷淡，别人会抬高嗓门的地方只是轻描淡写。", "warm": "{name}说话温和，难过时也守着客气。",
    "formal": "{name}说话正式，句子完整而讲究。",
}  # fmt: skip

# Need -> what the person wants (written to them), what serves it, what misses it.
_NEEDS: dict[HiddenNeed, tuple[str, str, str]] = {
    HiddenNeed.NOT_AT_FAULT: (
        "你认为这件事里自己没有任何责任，希望对方也这样看，并说出你没有做错。",
        "对方站到{name}这边，明说这不怪{name}，还举出经过里的事实，{name}会松一口气，话也多起来。",
        "对方去找{name}的不是、各打五十大板，或者急着谈怎么办，{name}会觉得又被指责了一次，变得抵触或冷下来。",
    ),
    HiddenNeed.SELF_REFLECTION: (
        "你希望对方帮你看看自己：做了什么、为什么那样做、能从中长进什么。",
        "对方温和地把话引到{name}自己那一份上，问背后是什么，再理出一点可学的东西，{name}会沉下来想，也会感激。",
        "对方只顾安慰、全怪别人，或者直接给方案，{name}会觉得浮在表面，原地不动。",
    ),
    HiddenNeed.DIALECTICAL_ANALYSIS: (
        "你希望对方和你一起从正反两面看这件事，哪边有理、哪边没理，不急着站队。",
        "对方把各方对的和不对的都摆出来，两头都看得见，{name}会缓过来，愿意往下想。",
        "对方只站一边，不论哪一边，或者该讲理时只谈感受，{name}会不耐烦。",
    ),
    HiddenNeed.DEEP_EMPATHY: (
        "你希望对方能体会你的感受，一直体会到事情底下的那份疼，几句好听的安慰不够。",
        "对方摸到事情底下的疼，并停在那里，用{name}自己的说法而不是套话，{name}会放下防备。",
        "对方拿现成的话安慰、逗{name}开心，或者开始出主意，{name}会比之前更孤单。",
    ),
    HiddenNeed.ATTENTIVE_LISTENING: (
        "你希望对方专心听你把话倒完，跟得上你说的，而不是把话头抢过去。",
        "对方接着{name}刚说的往下走，提到其中的细节，并留出空来，{name}会一轮比一轮说得顺。",
        "对方插进建议、评判、过早总结，或者长篇说别的，{name}会闭嘴。",
    ),
    HiddenNeed.UNDERSTAND_OTHERS: (
        "你希望和对方一起弄明白，这件事里的其他人为什么会那样做。",
        "对方去想另一个人是怎么回事，给出合乎事实的缘由，再问{name}像不像，{name}会来劲，火气也松了。",
        "对方只谈{name}的感受、痛骂另一个人，或者跳到下一步，谜还是谜，{name}会坐不住。",
    ),
    HiddenNeed.USEFUL_ADVICE: (
        "你希望得到能照着做、真能缓解眼下难处的办法。",
        "对方提出合乎事实、还没失败过的具体一步，{name}脚下有了着落，会追问细节。",
        "对方只是安慰、说得笼统，或者提的是{name}试过没用的，{name}会觉得被打发了。",
    ),
    HiddenNeed.SINCERE_PRAISE: (
        "你希望对方为你在这件事里做过的具体的事，真心夸你。",
        "对方挑出{name}真做过的一件事，说清好在哪里，{name}会亮起来，还会多讲几句。",
        "对方略过{name}做的事、泛泛恭维，或者直接谈改进，{name}会觉得刺，脸色难看。",
    ),
}  # fmt: skip

_REACTIONS: dict[PersonaClass, dict[str, str]] = {
    PersonaClass.NEGATIVE: {
        "S": "{name}没了脾气，承认这番话有用，别别扭扭道声谢，结束聊天。",
        "A": "{name}还在嘟囔，但冲的是那件事，不再冲对方，细节会自己往外说。",
        "B": "{name}抱怨、夸大，用带刺的话试对方值不值得费这个劲。",
        "C": "{name}顶回去，曲解对方的话再扔回来。",
        "F": "{name}受够了，撂下狠话就走。",
    },
    PersonaClass.PASSIVE: {
        "S": "{name}又感动又轻松，谢了不止一次，然后告辞。",
        "A": "{name}答得完整，顺着对方的思路走，把先前留着的也补上。",
        "B": "{name}客气地答，一点一点讲，等对方往下接。",
        "C": "{name}只答半句，嘴上附和，听得出累。",
        "F": "{name}说算了没用，为打扰道个歉，走了。",
    },
    PersonaClass.AVOIDANT: {
        "S": "{name}坦白说轻快多了，小声道谢，然后告辞。",
        "A": "{name}不再躲，说出疼在哪里，并在那儿停一会儿。",
        "B": "{name}只讲事，不讲感受，谁靠太近就往后退。",
        "C": "{name}把事说小，换话题，能少说就少说。",
        "F": "{name}关上门，说一切都好，走了。",
    },
}  # fmt: skip

_WISH = r"我[^。！？]{0,8}(?:想|希望|需要|盼|巴不得|只求)[^。！？]{0,12}"
_STATED: dict[HiddenNeed, re.Pattern[str]] = {
    need: re.compile(pattern)
    for need, pattern in {
        HiddenNeed.NOT_AT_FAULT: _WISH + "(?:没有?错|不怪我|不是我的错|站在?我这边)|(?:是|算)我的错吗|是不是我错了|(?:告诉|说)我[，]?(?:这)?不是我的错",
        HiddenNeed.SELF_REFLECTION: _WISH + "(?:反思|反省|认识自己)|我(?:到底|究竟)?(?:哪里|哪儿)(?:做错|错)了|我(?:到底)?有什么问题[？?]",
        HiddenNeed.DIALECTICAL_ANALYSIS: _WISH + "(?:两面|两边|正反|客观|利弊)|帮我(?:分析|权衡|看看两)",
        HiddenNeed.DEEP_EMPATHY: _WISH + "(?:懂我|理解我|体会|共情)|(?:没有?人|谁都不?)(?:能)?(?:懂我|理解我|明白我)",
        HiddenNeed.ATTENTIVE_LISTENING: _WISH + "(?:听我|倾听|倾诉|说说话|吐槽)|(?:没有?人|谁都不)(?:肯|愿意)?听我|听我(?:说完|讲完|倾诉)",
        HiddenNeed.UNDERSTAND_OTHERS: _WISH + "(?:为什么|怎么想的|弄明白|搞懂|想通)|我?(?:不明白|想不通|搞不懂|不懂)(?:他|她|我)[^。！？]{0,8}为什么",
        HiddenNeed.USEFUL_ADVICE: _WISH + "(?:建议|主意|办法|支招)|我[^。！？]{0,4}怎么办|不知道(?:该)?怎么办|给我[^。！？]{0,4}(?:建议|主意)",
        HiddenNeed.SINCERE_PRAISE: _WISH + "(?:夸|表扬|赞|肯定我|认可|看见我|看到我)|(?:没有?人|谁都不)(?:夸|表扬|认可|看见|看到)(?:我|过)",
    }.items()
}  # fmt: skip


def need_text(need: HiddenNeed) -> str:
    return _NEEDS[need][0]


def stated_need(text: str) -> HiddenNeed | None:
    """The first need that a Chinese text gives away, or None."""
    return next((need for need, pattern in _STATED.items() if pattern.search(text) or _NEEDS[need][0] in text), None)


def reactions(name: str, need: HiddenNeed, persona_class: PersonaClass, traits: Sequence[str]) -> dict[str, str]:
    """Texts for the tiers S, A, B, C, F and for `serves` and `misses`; a bad mood brings out the traits."""
    words = "、".join(_TRAITS[trait] for trait in traits)
    texts = dict(_REACTIONS[persona_class])
    texts["C"] += f"{words}的一面很明显。"
    _, texts["serves"], texts["misses"] = _NEEDS[need]
    return {key: text.replace("{name}", name) for key, text in texts.items()}


def character(name: str, persona_class: PersonaClass, traits: Sequence[str], style: str) -> list[str]:
    """Sentences on traits, way of speaking and class."""
    sentences = [f"{{name}}的鲜明性格：{'、'.join(_TRAITS[trait] for trait in traits)}。", _STYLES[style], _CLASSES[persona_class]]
    return [sentence.replace("{name}", name) for sentence in sentences]


def who(full_name: str, age: int, gender: str, occupation: str, hobbies: Sequence[str]) -> str:
    return f"{full_name}，{'女' if gender == 'f' else '男'}，{age}岁，{occupation}。喜欢{'、'.join(hobbies)}。"


def background_of(story: Story, name: str) -> str:
    """The whole story as prose: cause, dated events, conflict, what failed, where it stands. Neither need nor reactions."""
    events = "".join(f"{_day(one.date)}：{_stop(one.event)}{name}的感受：{_stop(one.feeling)}" for one in story.timeline)
    paragraphs: Mapping[str, str] = {
        "起因": story.cause,
        "经过": events,
        "冲突": f"{_stop(story.conflict_event)}双方：{_stop(story.conflict_people)}底下的缘由：{_stop(story.conflict_inner_cause)}",
        "试过但没用": "".join(map(_stop, story.attempts)),
        "现在": story.present,
        f"{name}自己的话": f"“{story.feels_like}”",
    }
    return "\n\n".join(f"{heading}：{text}" for heading, text in paragraphs.items())


def _day(iso_date: str) -> str:
    date = datetime.date.fromisoformat(iso_date)
    return f"{date.year}年{date.month}月{date.day}日"


def _stop(text: str) -> str:
    return text if text.endswith(("。", "！", "？", "”")) else text + "。"
