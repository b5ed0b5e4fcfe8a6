"""The method. Imports no Prefect, MLflow or DVC; reads no arguments and no environment."""
