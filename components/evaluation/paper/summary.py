"""The paper run's results as Markdown, to be quoted from: the same tables as the page."""

from __future__ import annotations

from components.evaluation.paper.findings import Finding, Row, counts
from components.evaluation.paper.material import PaperRun
from components.evaluation.paper.runs import USERS
from components.evaluation.paper.tables import SEEDED, PolicyRow, SeedRow, Spread, ability_rows, policy_rows, seed_rows
from components.evaluation.report import wording
from components.evaluation.report.published import SOURCE, TABLE_1, TABLE_3, PublishedRow
from components.evaluation.report.table import markdown_table, with_ends
from components.evaluation.report.tables import CapabilityTable

_RESULTS = (
    "Policy", "Seed", "Score", "Difference to base", "Success", "Failure", "Right act", "Reply tokens", "Thought tokens", "s per step",
)  # fmt: skip
_TESTS = ("Finding", "Case", "User", "Estimate (95% CI)", "Interval over", "Seeds", "Outcome")


def results_markdown(paper: PaperRun, found: list[Finding], margin: float) -> str:
    """Everything the page has, but for its figures."""
    parts = ["# The paper run\n", f"{tally(found)}\n", *[f"- {line}" for line in missing(paper)], ""]
    for user in USERS:
        parts += [f"## With the {user} user\n", markdown_table(_RESULTS, [_policy(row) for row in policy_rows(paper, user)])]
    if seeded := seed_rows(paper):
        parts += ["## Over seeds: mean (range)\n", markdown_table(_seed_header(), [_seeds(row) for row in seeded])]
    parts += ["## Findings\n", markdown_table(_TESTS, [_test(finding, row) for finding in found for row in finding.rows])]
    if ability := ability_rows(paper, margin):
        parts += ["## General ability\n", markdown_table(("Policy", "Outcome", "Tasks"), [_ability(row) for row in ability])]
    parts += [f"## Published: another model, another user, another scale\n\nRLVER paper ({SOURCE}). Score, success, failure.\n", _table_1()]
    parts += ["RLVER paper, Table 3 (PPO; columns: the user in training).\n", _table_3()]
    return "\n".join(parts)


def tally(found: list[Finding]) -> str:
    """How the findings came out, in one sentence."""
    by_outcome = counts(found)
    return (
        f"{sum(by_outcome.values())} tests of findings. "
        + ", ".join(f"{outcome}: {count}" for outcome, count in by_outcome.items()).capitalize()
        + "."
    )


def missing(paper: PaperRun) -> list[str]:
    """One line for every policy that is not complete."""
    return [f"{policy.run.name}: {policy.problem}" for policy in paper.incomplete]


def tasks_in_words(table: CapabilityTable) -> str:
    """Each task with its difference to the base and its own outcome, or why there is none."""
    if table.problem is not None:
        return f"not compared: {table.problem}"
    return "; ".join(f"{name} {wording.signed(row['difference'], 3)} ({row['outcome']})" for name, row in table.rows.items())


def estimate_in_words(row: Row) -> str:
    """+12.3 (+9.8 to +14.9); a single seed has no interval; without an estimate what is missing."""
    if row.estimate is None:
        return f"needs {'; '.join(row.missing)}"
    ends = "one seed, no interval" if row.estimate.n == 1 else wording.signed_interval(row.estimate.ci95)
    return with_ends(wording.signed(row.estimate.value), ends)


def spread_in_words(name: str, spread: Spread | None) -> str:
    """45.0 (41.2 to 48.8), or per cent for a rate."""
    if spread is None:
        return wording.DASH
    if name.endswith("_rate"):
        return with_ends(wording.percent(spread.mean), wording.percent_interval((spread.low, spread.high)))
    return with_ends(wording.number(spread.mean), wording.interval((spread.low, spread.high)))


def _policy(row: PolicyRow) -> list[str]:
    return [
        row.name,
        str(row.seed),
        with_ends(wording.number(row.emotion_mean), wording.interval(row.emotion_ci95)),
        with_ends(wording.signed(row.difference), wording.signed_interval(row.difference_ci95)),
        wording.percent(row.success_rate),
        wording.percent(row.failure_rate),
        wording.percent(row.right_act_rate),
        wording.number(row.reply_tokens_mean),
        wording.number(row.think_tokens_mean),
        wording.number(row.step_seconds),
    ]


def _seed_header() -> list[str]:
    return ["Trained", "User", "Seeds", *(wording.readable(name) for name in SEEDED)]


def _seeds(row: SeedRow) -> list[str]:
    return [
        str(row.kind), row.user, ", ".join(map(str, row.seeds)),
        *(spread_in_words(name, row.spreads[name]) for name in SEEDED),
    ]  # fmt: skip


def _test(finding: Finding, row: Row) -> list[str]:
    seeds = ", ".join(map(str, row.seeds))
    return [f"{finding.claim} ({finding.source})", row.case, row.user, estimate_in_words(row), finding.over, seeds, row.outcome]


def _ability(table: CapabilityTable) -> list[str]:
    return [table.variant, table.outcome or wording.DASH, tasks_in_words(table)]


def _table_1() -> str:
    rows = [[sentient.name, _scores(sentient), _scores(chit_chat)] for sentient, chit_chat in TABLE_1]
    return markdown_table(("Policy (Table 1)", "Sentient-Benchmark", "Chit-Chat"), rows)


def _scores(row: PublishedRow) -> str:
    return f"{wording.number(row.emotion_mean)}, {wording.percent(row.success_rate)}, {wording.percent(row.failure_rate)}"


def _table_3() -> str:
    header = ("Evaluated on", "Vanilla, direct", "Vanilla, think", "Challenging, direct", "Challenging, think")
    return markdown_table(header, [[row.evaluated_on, *map(wording.number, row[1:])] for row in TABLE_3])
