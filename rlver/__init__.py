"""Train empathetic dialogue models by reinforcement learning from verifiable emotion rewards.

The code lies in components/, tasks/ and flows/ of the checkout; here they are under the one name that is installed.
"""
