"""Data contracts: a small file that describes the training data, and what departs from it."""

from __future__ import annotations
