"""MLflow, filled from the files on disk and from nothing else; no other package imports mlflow.

Every number lies in a file before it is sent (tasks/tracking/spool.py), so a tracker that is down or slow costs a run nothing: what it
missed is sent later, once. A stage that was run by `dvc repro` is logged by the next `rlver run`.
"""
