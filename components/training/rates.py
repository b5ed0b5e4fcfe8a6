"""Which learning rate is usual for a model of a size. A rule of thumb and no law: the tiny model learns at 8e-4, RLVER's 7B at 1e-6.

Far above the usual rate a model forgets how to speak within a few steps, and no error says so.
"""

from __future__ import annotations

USUAL_RATES = ((20 * 10**6, 3e-3), (200 * 10**6, 3e-4), (700 * 10**6, 1e-4), (2_500 * 10**6, 2e-5))  # (weights up to, at most)
LARGEST_MODELS_RATE = 1e-5
ADAPTERS = 10  # adapters (LoRA) learn at so many times the rate of all weights


def usual_rate(weights: int, lora_rank: int) -> float:
    """The highest usual learning rate for a model of so many weights; `lora_rank` 0: all of them learn."""
    most = next((rate for up_to, rate in USUAL_RATES if weights <= up_to), LARGEST_MODELS_RATE)
    return most * (ADAPTERS if lora_rank else 1)


def warning_of_rate(learning_rate: float, weights: int, lora_rank: int) -> str | None:
    """What to say of a rate that is too high for the model, in one line; None: nothing."""
    most = usual_rate(weights, lora_rank)
    if learning_rate <= most:
        return None
    size = f"{weights / 1e9:.2f} billion" if weights > 1e9 else f"{weights / 1e6:.1f} million"
    return (
        f"train.learning_rate {learning_rate:g} is for a smaller model: of {size} weights at most {most:g} is usual; "
        "set it in the variant's overlay"
    )
