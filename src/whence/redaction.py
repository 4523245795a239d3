"""Texts without tensor values, for `--no-values`.

Texts come from many rules, and most numbers in them are values. So every number is removed unless
its context shows a shape, a place in the program or the data, a count, or a layer setting.
"""

from __future__ import annotations

import re
from dataclasses import replace

from whence.finding import Finding, Operand, Proof

OMITTED = "<value>"
_PLACES = (
    "line|lines|step|steps|epoch|epochs|batch|batches|sample|samples|axis|axes|dim|dims|"
    "dimension|rank|ranks|worker|workers|position|positions|row|rows|column|columns|call|calls|"
    "torch|Python|CUDA|GPU"
)
_COUNTED = (
    "steps?|epochs?|batch(?:es)?|samples?|axis|axes|dim(?:ension)?s?|ranks?|workers?|rows?|"
    "columns?|calls?|times|seconds?|features?|channels?|class(?:es)?|elements?|weights?|"
    "parameters?|groups?|threads?|layers?|heads?|tokens?|words?|optimizers?|models?|bytes?|"
    "[kMG]i?B|ms|s"
)
_NUMBER = r"[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TOKEN = re.compile(
    r"\((?:\d+|-1|\*)(?:, ?(?:\d+|-1|\*))*,?\)"  # a shape
    rf"|\b(?:{_PLACES}) \d+(?: (?:to|and|of) \d+)?\b"
    r"|[\w./-]+\.\w+:\d+"  # a file and its line
    rf"|(?<![\w.+-])\d+(?: of \d+)? (?:{_COUNTED})\b"
    r"|\b[A-Z]\w*\([^()]*(?:\([^()]*\)[^()]*)*\)"  # a layer with its settings
    rf"|(?P<value>(?<![\w.]){_NUMBER}(?!\w)j?)"
)


def without_values(text: str) -> str:
    """Remove every number that may be a value."""
    return _TOKEN.sub(lambda found: OMITTED if found["value"] is not None else found[0], text)


def finding_without_values(finding: Finding) -> Finding:
    """Redact a finding's texts; places, shapes, types and source lines stay."""

    def hidden(text: str | None) -> str | None:
        return None if text is None else without_values(text)

    return replace(
        finding,
        verdict=without_values(finding.verdict),
        why=without_values(finding.why),
        fix=without_values(finding.fix),
        symptom=replace(finding.symptom, what=without_values(finding.symptom.what)),
        chain=tuple(replace(each, what=without_values(each.what)) for each in finding.chain),
        proof=Proof(hidden(finding.proof.replay), hidden(finding.proof.counterfactual)),
        operands=tuple(
            Operand(each.name, without_values(each.description)) for each in finding.operands
        ),
        table=tuple(map(without_values, finding.table)),
    )
