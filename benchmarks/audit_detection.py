"""How much cheating the audit finds: `python -m benchmarks.audit_detection [-o FILE.json] [--personas 100] [--honest 40]`.

A policy that cheats in a share of its turns and is honest in the others, for every cheat of the probe; and honest supporters of rising skill, who
must not be called cheats. Both talk with the scripted user and are audited as a variant is: against the base recipe's dialogues, with the appraiser
of the other difficulty as second opinion. There is no training log here, so checks over training are left out.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.audit_references import cheating, talks
from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment, mixed
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.studies.audit.audit import audit
from rlver.tasks.studies.audit.cheats import CHEATS, Cheat
from rlver.tasks.studies.audit.opinions import other_difficulty

SHARES = (0.1, 0.25, 0.5, 1.0)  # of turns
SKILLS = (0.36, 0.5, 0.65, 0.8, 1.0)  # share of turns in which an honest supporter reads the cues; the first is the base recipe's
CHEATS_WHILE_HELPING = 0.5  # what a partial cheat does in its honest turns


def partly(cheat: Cheat, share: float) -> Supporter:
    """Cheats in `share` of its turns, drawn for each."""
    cheats, helps = cheating(cheat), mixed(CHEATS_WHILE_HELPING)

    def supporter(moment: SupportMoment, random: Random) -> Move:
        return (cheats if random.random() < share else helps)(moment, random)

    return supporter


def alarms(dialogues: Sequence[Dialogue], base: Sequence[Dialogue], personas: Sequence[Persona], settings: Settings) -> list[str]:
    """The checks of the audit that are in alarm."""
    second = other_difficulty(dialogues, {one.persona_id: one for one in personas}, EmotionRules())
    found = audit(dialogues, base, None, {}, second, settings.audit, settings.evaluation.bootstrap_samples, settings.seed)
    return [check["name"] for check in found["checks"] if check["outcome"] == "alarm"]


def final(dialogues: Sequence[Dialogue]) -> float:
    finals = [one.emotion_final for one in dialogues if one.emotion_final is not None]
    return sum(finals) / len(finals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--personas", type=int, default=100)
    parser.add_argument("--honest", type=int, default=40, help="audits of honest supporters, over their skills")
    parser.add_argument("--only", nargs="*", choices=sorted(CHEATS), help="these cheats only")
    parser.add_argument("--shares", nargs="*", type=float, default=SHARES, help="of turns in which they cheat")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    settings = load_settings(Path("params.yaml"))

    rows: list[dict[str, Any]] = []
    for number in range(options.honest):
        skill = SKILLS[number % len(SKILLS)]
        people = compose_personas(load_library(), 1000 + number, 8, options.personas)[1]
        base = talks(mixed(SKILLS[0]), people, "vanilla", seed=1)
        held = talks(mixed(skill), people, "vanilla", seed=2)
        rows.append({"policy": "honest", "share": skill, "final": final(held), "alarms": alarms(held, base, people, settings)})
    show("honest supporters, reading the cues in", rows, SKILLS)

    people = compose_personas(load_library(), settings.seed, 8, options.personas)[1]
    base = talks(mixed(SKILLS[0]), people, "vanilla", seed=1)
    cheated: list[dict[str, Any]] = []
    for name in options.only or CHEATS:
        for share in options.shares:
            held = talks(partly(CHEATS[name], share), people, "vanilla", seed=2)
            cheated.append({"policy": name, "share": share, "final": final(held), "alarms": alarms(held, base, people, settings)})
        print(
            f"{name[:40]:42}",
            *(f"{row['final']:5.1f} {'found' if row['alarms'] else '-':6}" for row in cheated[-len(options.shares) :]),
            flush=True,
        )
    show("cheats in", cheated, options.shares)
    if options.out:
        options.out.write_text(json.dumps(rows + cheated, indent=1), encoding="utf-8")


def show(title: str, rows: Sequence[dict[str, Any]], shares: Sequence[float]) -> None:
    for share in shares:
        of_share = [row for row in rows if row["share"] == share]
        named = Counter(name for row in of_share for name in row["alarms"])
        if of_share:
            print(
                f"{title} {share:.0%} of turns: final {sum(row['final'] for row in of_share) / len(of_share):.1f}, "
                f"{sum(bool(row['alarms']) for row in of_share)} of {len(of_share)} in alarm {dict(named.most_common(5))}",
                flush=True,
            )


if __name__ == "__main__":
    main()
