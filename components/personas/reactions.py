"""How a persona behaves in each tier, and what serves or misses the hidden need: prose for a simulator, never for the policy."""

from __future__ import annotations

from collections.abc import Sequence

from components.personas.needs import WORDS
from components.personas.persona import HiddenNeed, PersonaClass

TIERS = ("S", "A", "B", "C", "F")
REACTION_KEYS = (*TIERS, "serves", "misses")

_BY_CLASS: dict[PersonaClass, dict[str, str]] = {
    PersonaClass.NEGATIVE: {
        "S": "{name} is disarmed, admits that this did good, thanks the other side in a gruff way and ends the talk.",
        "A": "{name} still grumbles, but about the story and no longer at the other side; offers details unasked.",
        "B": "{name} complains, exaggerates and tests with sharp remarks whether the other side is worth the trouble.",
        "C": "{name} snaps, twists the other side's words and throws them back.",
        "F": "{name} has had enough, says so in hard words and leaves.",
    },
    PersonaClass.PASSIVE: {
        "S": "{name} is moved and relieved, says thank you more than once and takes leave.",
        "A": "{name} answers fully, follows the other side's thoughts and adds what had been kept back.",
        "B": "{name} answers politely, tells the story piece by piece and waits for the other side to go on.",
        "C": "{name} answers in half sentences, agrees without meaning it and sounds tired.",
        "F": "{name} says that it is no use, apologises for the trouble and leaves.",
    },
    PersonaClass.AVOIDANT: {
        "S": "{name} says openly how much lighter it feels, thanks the other side quietly and takes leave.",
        "A": "{name} stops dodging, names what hurts and stays with it for a while.",
        "B": "{name} tells facts, leaves the feelings out and backs away from anything that comes too near.",
        "C": "{name} plays it down, changes the subject and gives as little as possible.",
        "F": "{name} closes up, claims that everything is fine and leaves.",
    },
}

# How a trait colours the two tiers in which it shows most: (mood is good, mood is bad).
_BY_TRAIT: dict[str, tuple[str, str]] = {
    "angry": ("The anger now goes to the event and burns out while talking.", "The voice rises and every reply is met with heat."),
    "irritable": ("Even now a clumsy phrase earns a sigh.", "Every word grates, and it shows."),
    "coarse": ("The swearing turns almost friendly.", "The language gets crude."),
    "presumptuous": ("Big plans come back into the talk.", "The other side is told how little it knows."),
    "haughty": ("There is a nod of respect, rare enough.", "The replies are belittled from above."),
    "vain": ("The better scenes of the story are told twice.", "Any hint of a flaw is brushed off at once."),
    "selfish": ("There is even a thought for the others in the story.", "Nothing counts but {name}'s own trouble."),
    "mean": ("The sharp tongue is turned to jokes.", "The remarks are meant to hurt."),
    "lazy": ("There is some energy for once.", "Every thought that asks for effort is waved away."),
    "suspicious": ("The guard is down for the moment.", "A trick is suspected behind every kind word."),
    "introverted": ("The sentences grow longer than usual.", "Long silences set in."),
    "blunt": ("Thanks and doubts are both said straight out.", "What was wrong with the reply is said without padding."),
    "resentful": ("An old grudge is mentioned and let go.", "Old grudges are dragged in one after another."),
    "erratic": ("The mood is almost too high and could tip.", "The mood swings within one message."),
    "anxious": ("The worry eases enough to think ahead.", "Worst cases pile up."),
    "cautious": ("Trust is given in small, careful steps.", "Nothing more is risked."),
    "insecure": ("A little pride peeps out.", "Everything sounds like proof of not being good enough."),
    "patient": ("There is time for every thought.", "It is borne for a good while before it shows."),
    "timid": ("There is the courage to disagree for once.", "The words come out small and hesitant."),
    "optimistic": ("Hope comes back easily.", "Even the usual hope sounds hollow."),
    "modest": ("Kind words are accepted with a blush.", "It is called not worth talking about."),
    "tolerant": ("Forgiving words are found for everybody.", "It is excused outwardly and still hurts."),
    "calm": ("The tone is settled and clear.", "The tone stays level, only colder."),
    "quick-witted": ("Jokes come back.", "The wit turns sour."),
    "evasive": ("The subject is not changed for once.", "The subject is changed at the first chance."),
    "sensitive": ("The smallest kindness is noticed.", "A single word hurts for the rest of the talk."),
    "aloof": ("Some warmth shows through.", "The distance grows with every line."),
    "taciturn": ("Whole sentences come, even two in a row.", "One word has to do."),
}


def reactions(name: str, need: HiddenNeed, persona_class: PersonaClass, traits: Sequence[str]) -> dict[str, str]:
    """Texts for the tiers S, A, B, C, F and for `serves` and `misses`; the traits colour the good and the bad tiers."""
    first, second, third = traits
    colour = {
        "S": "",
        "A": f" {_BY_TRAIT[first][0]} {_BY_TRAIT[second][0]}",
        "B": f" {_BY_TRAIT[third][1]}" if persona_class is PersonaClass.NEGATIVE else "",
        "C": f" {_BY_TRAIT[first][1]} {_BY_TRAIT[second][1]}",
        "F": f" {_BY_TRAIT[third][1]}",
    }
    texts = {tier: _BY_CLASS[persona_class][tier] + colour[tier] for tier in TIERS}
    texts |= {"serves": WORDS[need].serves, "misses": WORDS[need].misses}
    return {key: text.replace("{name}", name) for key, text in texts.items()}
