"""How dialogues become updates, one module an algorithm: `ALGORITHM`, chosen by train.algorithm by the module's name.

These modules are light, for settings read them; the trainers themselves (../grpo.py, ../ppo.py) are imported when one is made.
"""
