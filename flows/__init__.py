"""Prefect: when and where. The graph itself is dvc.yaml."""
