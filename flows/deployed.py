"""The flows as deployments name them: with forms that offer what the project of the current folder has.

Both `prefect deploy` and `rlver serve-deployments` take a flow's form from here, so that they give the same one.
"""

from __future__ import annotations

from rlver.flows.choices import offer
from rlver.flows.evaluate import evaluate as evaluate
from rlver.flows.promote import promote as promote
from rlver.flows.reproduce import reproduce as reproduce
from rlver.flows.sweep import sweep as sweep
from rlver.tasks.runtime import environment

offer(environment.project_root())
