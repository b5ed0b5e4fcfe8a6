"""MLflow, filled from the files on disk and from nothing else; no other package imports mlflow.

Every number lies in a file before it is sent (tasks/tracking/spool.py), so a tracker that is down or slow costs a run nothing: what it
missed is sent later, once. A stage that was run by `dvc repro` is logged by the next `rlver run`.
"""

from rlver.tasks.runtime.environment import EXPERIMENT as EXPERIMENT
from rlver.tasks.tracking.filling import LogModels as LogModels
from rlver.tasks.tracking.recorder import MlflowRecorder as MlflowRecorder
from rlver.tasks.tracking.recorder import log_pipeline as log_pipeline
from rlver.tasks.tracking.reports import log_report as log_report
from rlver.tasks.tracking.store import TrackingUnavailable as TrackingUnavailable
