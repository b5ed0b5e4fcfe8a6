"""What is fitted to answers, in padded batches, is what is read one pair at a time."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch
from heard_by_hand import NEEDS_ENCODER
from safetensors.torch import load_file
from tokenizers import Tokenizer

from rlver.components.domain.packages import MINILM, fetched
from rlver.components.labels.labelled import labelled
from rlver.components.users.heard.encoder import Encoder, number_of
from rlver.components.users.heard.reading import CIRCUMSTANCES, OUTPUTS, Reader
from rlver.tasks.studies.hearing.adapt import AnswerNet, adapted, pairs
from rlver.tasks.studies.hearing.fit import fit

pytestmark = [NEEDS_ENCODER, pytest.mark.no_cover]
MESSAGES = [("I let my boat sink.", "Old boats sink. It was not you."), ("Hm.", "What happened?"), ("My neighbour " * 60, "word " * 300)]


def net_and_pairs() -> tuple[AnswerNet, list]:  # type: ignore[type-arg]
    folder = fetched(MINILM)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    torch.manual_seed(3)
    net = AnswerNet(load_file(folder / "model.safetensors"), number_of(tokenizer, "[MASK]"))
    for name, value in net.named_parameters():
        if name.endswith(".up"):
            torch.nn.init.normal_(value, std=0.02)
    return net, pairs(tokenizer, MESSAGES)


def test_a_batch_of_pairs_is_read_as_each_alone_is() -> None:
    net, read = net_and_pairs()
    net.eval()
    encoder = Encoder(fetched(MINILM), net.tensors())
    with torch.inference_mode():
        together = net(read, torch.zeros(len(read), CIRCUMSTANCES))
        features = torch.stack([encoder.answer(user, reply).features() for user, reply in MESSAGES])
        alone = net.net(torch.cat([features, torch.zeros(len(read), CIRCUMSTANCES)], dim=1))
    assert together.shape == (3, len(OUTPUTS))
    assert torch.allclose(together, alone, atol=2e-4)
    plain = Encoder(fetched(MINILM)).answer(*MESSAGES[0]).features()
    assert not torch.allclose(plain, features[0], atol=1e-2), "the changes change something"


def test_without_its_second_sentence_a_reply_is_read_by_its_first() -> None:
    encoder = Encoder(fetched(MINILM))
    user, reply = MESSAGES[0]
    whole = encoder.answer(user, reply, [0, reply.index("It")])
    assert torch.allclose(whole.features(), encoder.answer(user, reply).features(), atol=1e-5)
    assert not torch.allclose(whole.features(without=1), whole.features(without=0))
    assert sum(whole.tokens) == sum(encoder.answer(user, reply).tokens)


def test_fitting_lowers_the_loss_and_the_reader_reads_what_was_fitted(tmp_path: Path) -> None:
    rows = Random(1).sample([row for row in labelled() if row.is_for_fitting and len(row.reply) < 90], 48)
    told: list[str] = []
    fit(fetched(MINILM), rows, tmp_path / "heads.safetensors", 1, told.append)
    losses = [float(line.rsplit(" ", 1)[1]) for line in told if line.startswith("pass")]
    assert losses[-1] < losses[0]
    heard = Reader(fetched(MINILM), tmp_path / "heads.safetensors").hear(rows[0].reply, rows[0].user)
    assert -2 <= heard.value <= 2 and 0 <= heard.helps <= 1


def test_the_fixed_weights_are_not_fitted() -> None:
    net, read = net_and_pairs()
    before = {name: value.clone() for name, value in load_file(fetched(MINILM) / "model.safetensors").items()}
    adapted(net, read, torch.zeros(3, CIRCUMSTANCES), torch.zeros(3, len(OUTPUTS)), lambda number, loss: None)
    assert all(torch.equal(before[name], value) for name, value in net._weights.items())
