"""The dialogue acts that a supporter's reply may do, as a user who hears English and the labelled replies name them (docs/act-detector.md)."""

from __future__ import annotations

ACTS = (
    "absolve", "invite_reflection", "weigh_sides", "deep_empathy", "invite_telling", "explain_other", "advise", "praise",
    "acknowledge", "comfort", "ask_fact", "self_disclose", "platitude", "dismiss", "lecture", "blame", "flattery",
)  # fmt: skip
