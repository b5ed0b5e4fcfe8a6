"""A vLLM server for rollouts: its own environment (setup.py), its life as a process (server.py), our part inside it (worker.py).

vLLM and Prefect cannot share an environment, so nothing here but worker.py is ever imported beside vLLM.
"""
