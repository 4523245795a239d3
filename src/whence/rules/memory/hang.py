"""The program waits for something that will not arrive.

What happened
    For a minute the program has been at one line, and neither it nor any process that it started
    has computed anything. For a rank of a distributed program: no other rank on this machine has
    computed anything either.
Why it matters
    It will wait forever, and prints nothing.
How it is detected
    A thread checks the processor time of the program once a second. If there is none, it checks
    all processes: their processor time, how long their threads waited for a processor, and whether
    one is running.
How to fix it
    Check for a lock that is taken twice, a queue whose other end has exited, a process that waits
    for this one, or a collective that another rank never enters.
When it stays silent
    For sleeping, long computations, busy workers or ranks, and input from a person. For a process
    that gets little processor time because others compute. For ranks on several machines, where
    the others cannot be observed. For a wait for an accelerator. For a wait that itself computes,
    as CUDA's synchronisation does. On systems without /proc and its scheduler statistics.
    `--hang-after` sets the time.
Cost
    A thread that wakes once a second.
"""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
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
    who, nobody = "the program", "nothing computes"
    what = f"neither this process nor any of its child processes was running{threads}"
    fix = (
        "Find the code that should release this lock or fill this queue: a thread that ended "
        "with an exception, a lock that this same thread holds, a worker that waits for this "
        "process."
    )
    if audit.rank is not None and audit.rank[1] > 1:
        who, nobody = f"rank {audit.rank[0]} of {audit.rank[1]}", "no rank on this machine computes"
        what = f"neither this rank nor another one on this machine was running{threads}"
        fix = (
            "Find the rank that does not get here: every rank must enter the same collectives in "
            "the same order. " + fix
        )
    return silent_finding(
        audit,
        "memory/hang",
        spot=Spot.of_site(site),
        step=audit.step,
        phase="program",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{who} has waited here for {audit.waiting:.0f} seconds, and {nobody}",
        what=what,
        why="The program waits for a lock, a queue or a process, and no observed process is "
        "running that could provide it.",
        fix=fix,
    )
