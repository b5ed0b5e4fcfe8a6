"""A vLLM server for rollouts: its own environment (setup.py), its life as a process (server.py), our parts inside it (worker.py, guard.py), and
whether it says what the trainer says (agreement.py).

vLLM and Prefect cannot share an environment, so only worker.py and guard.py are ever imported beside vLLM.
"""
