"""The file of blind answers, which is sent around and reported from."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from fuzzing import fuzz, times
from mutation import as_lines, mutants

from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice, PersonSaid, Replied, Row, Spoken, Study, StudyPair, TalkBegun, TalkVerdict
from rlver.tasks.studies.blind.command import report

ROOT = Path(__file__).parents[2]
AT = "2026-01-01T00:00:00+00:00"
PAIRS = tuple(
    StudyPair(pair_id=f"{number}", persona_id=f"p{number}", dialogue_a=f"a/{number}", dialogue_b=f"b/{number}", emotion_a=40, emotion_b=90)
    for number in range(3)
)
STUDY = Study(a="one", b="other", simulator="scripted", seed=7, pairs_each=3, overlap=0.5, pairs=PAIRS)
ROWS: tuple[Row, ...] = (
    STUDY,
    *(
        Choice(
            at=AT,
            answer_id=f"{rater}{pair.pair_id}",
            rater=rater,
            preference="b",
            confidence=2,
            reason="kinder",
            pair_id=pair.pair_id,
            left="a",
        )
        for rater in ("ann", "ben")
        for pair in PAIRS
    ),
    TalkBegun(at=AT, rater="ann", talk_id="t", a="one", b="other", left="b"),
    PersonSaid(at=AT, talk_id="t", message_id="m", text="Hello"),
    Replied(at=AT, talk_id="t", message_id="m", a=Spoken(reply="Hi"), b=Spoken(reply=None, error="no answer")),
    TalkVerdict(at=AT, answer_id="v", rater="ann", preference="tie", confidence=1, talk_id="t"),
)
FILE = [row.model_dump(mode="json") for row in ROWS]


@times
def test_blind_answers(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reported, and opened to go on: then nothing but a last line that was cut off may go."""
    path = tmp_path / "foreign.jsonl"
    settings: Settings = load_settings(ROOT / "params.yaml")
    settings = settings.model_copy(update={"evaluation": settings.evaluation.model_copy(update={"bootstrap_samples": 100})})
    monkeypatch.setattr("rlver.components.settings.settings.load_settings", lambda *_: settings)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        with redirect_stdout(TextIOWrapper(BytesIO(), "utf-8")):  # what cannot be written raises
            report(path, track=False, params=ROOT / "params.yaml")
        with AnswerFile(path, lambda _: None) as file:
            file.begin(STUDY)
        assert path.read_bytes().startswith(content[: content.rstrip(b"\n").rfind(b"\n") + 1])

    fuzz(mutants([FILE, FILE[:4], FILE[:1]], as_lines), read, times, path.name)
