"""List the rules, or explain one.

example: whence rule
         whence rule shape/linear-features
"""

from __future__ import annotations

from itertools import groupby

from whence.cli.outputs import Parser
from whence.config import UsageError


def main(arguments: list[str]) -> int:
    parser = Parser(prog="whence rule", description=__doc__)
    parser.add_argument("id", nargs="?", help="rule id, such as shape/linear-features")
    wanted = parser.parse_args(arguments).id
    from whence.rules.rule import all_rules

    rules = sorted(all_rules(), key=lambda each: each.id)
    if wanted is None:
        for family, members in groupby(rules, key=lambda each: each.family):
            print(family)
            for each in members:
                print(f"  {each.id:<28} {each.summary}")
        return 0
    for each in rules:
        if each.id == wanted:
            print(f"{each.id}\n\n{each.documentation}")
            return 0
    near = [each.id for each in rules if wanted in each.id or each.family == wanted.split("/")[0]]
    hint = f"; did you mean {', '.join(near)}?" if near else "; `whence rule` lists them"
    raise UsageError(f"no rule named {wanted!r}{hint}")
