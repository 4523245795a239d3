"""Data contracts: what the training data looked like, kept as a small file, and what departs from it."""

from __future__ import annotations
