"""The stages of the graph: one module is one DVC stage, run as `python -m rlver.tasks.stages.<name>`. No Prefect here."""
