"""The program waits for something that will not come.

What happened
    For a minute the program has been at one line, and neither it nor any process that it started has computed anything.
Why it matters
    It will wait for ever, and prints nothing.
How it is detected
    A thread looks twice a second at the line and at the processor time of all processes.
How to fix it
    A lock that is taken twice, a queue whose other end has ended, a process that waits for this one.
When it stays silent
    Sleeping, long computations, workers that are busy, input from a person. `--hang-after` sets the time.
Cost
    A thread that wakes twice a second.
"""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import tell_silent
from whence.source.spots import Spot

PATIENT = frozenset({"sleep", "input", "wait_for_debugger", "breakpoint", "readline", "getpass"})


@audit_rule("memory/hang", Rank.GENERAL)
def hang(audit: Audit) -> Finding | None:
    if audit.waiting is None or not audit.stack:
        return None
    site = audit.stack[0]
    node = site.node() or site.statement()
    called = {
        each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
        for each in (ast.walk(node) if node is not None else ())
        if isinstance(each, ast.Call)
    }
    if called & PATIENT:
        return None
    threads = f"; {audit.threads} other threads wait as well" if audit.threads else ""
    return tell_silent(
        audit,
        "memory/hang",
        spot=Spot.of_site(site),
        step=audit.step,
        phase="program",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"the program has waited here for {audit.waiting:.0f} seconds, and nothing computes",
        what=f"neither this process nor one below it was running{threads}",
        why="Whatever it waits for, a lock, a queue or a process: nobody is at work who could bring it.",
        fix="Look who should release it or put something in: a thread that ended with an exception, a lock that this very thread holds, "
        "a worker that waits for this process.",
    )
