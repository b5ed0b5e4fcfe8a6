"""The facts of the small world: plain tables, nothing else.

Every relation has five sentence frames that end in the answer. It is a closed world: a subject has one right answer within its
relation (here only cats eat mice), because the answers of other subjects are the wrong options of the multiple-choice items.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Relation:
    """Facts (subject, answer) and the frames that say them; `{x}` is the subject, the answer and a full stop are appended.

    A subject of two words, written `a|b`, fills `{x}` and `{z}`.
    """

    name: str
    frames: tuple[str, str, str, str, str]
    facts: tuple[tuple[str, str], ...]


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `subject=answer, subject=answer`."""
    return tuple((left.strip(), right.strip()) for left, right in (item.split("=") for item in text.split(",")))


NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_OPPOSITES = _pairs(
    "big=small, hot=cold, old=new, long=short, fast=slow, high=low, wet=dry, hard=soft, full=empty, light=dark, open=closed, "
    "rich=poor, thick=thin, wide=narrow, clean=dirty, loud=quiet, near=far, early=late, left=right, up=down, day=night, "
    "first=last, strong=weak, sweet=sour"
)

RELATIONS: tuple[Relation, ...] = (
    Relation(
        "food",
        (
            "A {x} eats",
            "The {x} likes to eat",
            "The food of a {x} is",
            "What does a {x} eat? It eats",
            "When a {x} is hungry, it looks for",
        ),
        _pairs(
            "cow=grass, monkey=bananas, squirrel=nuts, cat=mice, bear=honey, panda=bamboo, frog=flies, seal=fish, rabbit=carrots, "
            "hen=corn, lion=meat, moth=wool, bee=nectar, blackbird=worms"
        ),
    ),
    Relation(
        "young",
        (
            "A young {x} is a",
            "The baby of a {x} is a",
            "A {x} has a baby called a",
            "Before it is a {x}, it is a",
            "Look at the {x} and her",
        ),
        _pairs("dog=puppy, cat=kitten, cow=calf, horse=foal, sheep=lamb, goat=kid, hen=chick, duck=duckling, bear=cub, frog=tadpole"),
    ),
    Relation(
        "home",
        (
            "A {x} lives in a",
            "The home of a {x} is a",
            "You can find a {x} in a",
            "At night the {x} goes back to its",
            "The {x} sleeps in a",
        ),
        _pairs("bird=nest, bee=hive, spider=web, horse=stable, pig=sty, bat=cave, fish=pond, lion=den, dog=kennel, rabbit=burrow"),
    ),
    Relation(
        "colour",
        ("{x} is", "The colour of {x} is", "What colour is {x}? It is", "If you paint {x}, you paint it", "Everybody knows that {x} is"),
        _pairs(
            "the grass=green, the sky=blue, the snow=white, the coal=black, a lemon=yellow, a tomato=red, a carrot=orange, "
            "an elephant=grey, a plum=purple, a tree trunk=brown, a pig=pink"
        ),
    ),
    Relation(
        "opposite",
        (
            "The opposite of {x} is",
            "It is not {x}, it is",
            "The word {x} means the reverse of",
            "If it is not {x}, then it is",
            "First it was {x}, now it is",
        ),
        _OPPOSITES + tuple((right, left) for left, right in _OPPOSITES),
    ),
    Relation(
        "next_day",
        ("After {x} comes", "The day after {x} is", "If today is {x}, tomorrow is", "{x} is followed by", "When {x} ends, it is"),
        tuple(zip(DAYS, DAYS[1:] + DAYS[:1], strict=True)),
    ),
    Relation(
        "day_before",
        (
            "Before {x} comes",
            "The day before {x} is",
            "If today is {x}, yesterday was",
            "{x} comes right after",
            "One day earlier than {x} is",
        ),
        tuple(zip(DAYS[1:] + DAYS[:1], DAYS, strict=True)),
    ),
    Relation(
        "next_month",
        ("After {x} comes", "The month after {x} is", "If it is {x} now, next month is", "{x} is followed by", "When {x} ends, it is"),
        tuple(zip(MONTHS, MONTHS[1:] + MONTHS[:1], strict=True)),
    ),
    Relation(
        "next_number",
        ("After {x} comes", "The number after {x} is", "One more than {x} is", "{x} is followed by", "Count on from {x} and you say"),
        tuple(pairwise(NUMBERS[1:])),
    ),
    Relation(
        "sum",
        ("{x} plus {z} is", "{z} plus {x} is", "{x} and {z} make", "If you add {x} to {z}, you get", "The sum of {x} and {z} is"),
        tuple((f"{NUMBERS[a]}|{NUMBERS[b]}", NUMBERS[a + b]) for a in range(2, 8) for b in range(a + 1, 10)),
    ),
    Relation(
        "plural",
        (
            "One {x}, two",
            "Here is a {x} and there are many",
            "If you have more than one {x}, you have",
            "The plural of {x} is",
            "I saw one {x}, she saw three",
        ),
        _pairs(
            "child=children, mouse=mice, foot=feet, tooth=teeth, goose=geese, man=men, woman=women, leaf=leaves, knife=knives, "
            "box=boxes, dog=dogs, tree=trees, baby=babies, city=cities, bus=buses, house=houses, book=books, potato=potatoes"
        ),
    ),
    Relation(
        "past",
        (
            "Today they {x}, yesterday they",
            "They {x} now and long ago they",
            "The past of {x} is",
            "We {x} every day and last week we",
            "I {x} now, before that I",
        ),
        _pairs(
            "go=went, eat=ate, run=ran, see=saw, come=came, take=took, give=gave, write=wrote, swim=swam, drink=drank, sing=sang, "
            "buy=bought, bring=brought, make=made, sleep=slept, fly=flew, draw=drew, grow=grew, walk=walked, play=played"
        ),
    ),
    Relation(
        "legs",
        (
            "The legs of a {x} number",
            "Count the legs of a {x}:",
            "How many legs has a {x}? It has",
            "If you see a {x}, the legs you count are",
            "All the legs of a {x} make",
        ),
        _pairs("dog=four, spider=eight, bee=six, hen=two, snake=zero, horse=four, ant=six, duck=two, frog=four, worm=zero"),
    ),
    Relation(
        "work",
        (
            "A {x} works in a",
            "You meet a {x} in a",
            "The {x} goes to work in a",
            "The place of a {x} is a",
            "Every morning the {x} opens the door of a",
        ),
        _pairs("teacher=school, doctor=hospital, cook=kitchen, farmer=barn, baker=bakery, actor=theatre, judge=court, priest=church"),
    ),
    Relation(
        "tool",
        ("To {x} you need a", "You {x} with a", "If you want to {x}, take a", "What do you {x} with? With a", "We {x} and so we use a"),
        _pairs(
            "cut bread=knife, sweep the floor=broom, dig a hole=spade, open a lock=key, eat soup=spoon, sew a shirt=needle, "
            "hit a nail=hammer, light a fire=match, paint a wall=brush, catch a fish=net"
        ),
    ),
    Relation(
        "kind",
        (
            "A {x} is a kind of",
            "The {x} belongs to the group called",
            "What is a {x}? A sort of",
            "We count the {x} as",
            "Think of a {x} and you think of",
        ),
        _pairs(
            "rose=flower, tulip=flower, oak=tree, pine=tree, apple=fruit, pear=fruit, hammer=tool, saw=tool, chair=furniture, "
            "table=furniture, eagle=bird, crow=bird, shirt=clothing, coat=clothing, violin=instrument, drum=instrument"
        ),
    ),
)
