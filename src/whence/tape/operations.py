"""Names of PyTorch's layers on the tape, for all modules that read it."""

from __future__ import annotations

from typing import Final

NORMS: Final = frozenset({"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"})
OVER_TIME: Final = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
"""Layers that run along a sequence."""
