"""The user's program as text: which line ran, its source, and where a name was defined.

Runs none of the program and does not import torch.
"""
