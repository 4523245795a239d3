"""A worker died or hangs.

What happened
    A worker process of a DataLoader ended without a word, or does not come back from a sample.
Why it matters
    The message has a process number and nothing of what it was doing; a worker that hangs gives no message at all.
How it is detected
    Workers that are no longer alive when the loader fails, or that the program waits for while nothing computes. What they were asked
    for is fetched again in a child process that tells each line before it runs it.
How to fix it
    Mend the sample or the line. Where the system killed it, use fewer workers or less memory.
When it stays silent
    Workers that raise: that is a corrupt sample. Slow ones, as long as something computes.
Cost
    A look at the processor time twice a second, in a thread of its own.
"""

from __future__ import annotations

from dataclasses import replace

from whence.finding import Confidence, Finding, Operand, Sample
from whence.lineage.trail import Birth, Trail
from whence.rules.rule import Rank, rule
from whence.rules.telling import tell
from whence.tape.failed import FailedCall


@rule("data/worker-failure", Rank.CAUSE)
def worker_failure(failed: FailedCall) -> Finding | None:
    fetching = failed.fetching
    if fetching is None or not fetching.lost:
        return None
    lost, ending = fetching.lost[0], fetching.ending
    spot = ending.spot if ending is not None and ending.spot is not None else None
    index = ending.index if ending is not None and isinstance(ending.index, int) else None
    sample = Sample(batch=fetching.info.batches, dataset_index=index) if index is not None else None
    of = f" at sample {index}" if index is not None else ""
    listed = f"{', '.join(map(str, lost.indices[:8]))}{' ...' if len(lost.indices) > 8 else ''}"
    asked = f" It was asked for samples {listed}." if lost.indices else ""
    if lost.is_alive:
        verdict = f"worker {lost.number} (pid {lost.pid}) hangs{of}"
        why = f"Nothing computes any more, and the loader waits for it.{asked}"
    else:
        verdict = f"worker {lost.number} (pid {lost.pid}) {_how(lost.exit_code)}{of}"
        why = f"It raised nothing: the process ended.{asked}"
    told = tell(
        failed,
        "data/worker-failure",
        verdict=verdict,
        trail=Trail(Birth.SAMPLE, spot or fetching.info.built, phase="data", sample=sample),
        why=why,
        fix="Mend the line that ends or blocks the process."
        if spot is not None
        else "Fetched again by itself it goes well: look at memory (the system kills what takes too much), or use fewer workers.",
        confidence=Confidence.PROVEN if spot is not None else Confidence.LIKELY,
        operands=(Operand("worker", f"pid {lost.pid}, {'alive' if lost.is_alive else f'exit code {lost.exit_code}'}"),),
        counterfactual=f"fetched again in a child process, sample {index} {ending.how} at this line"
        if ending is not None and spot is not None
        else None,
    )
    return replace(told, origin=replace(told.origin, sample=sample)) if told is not None else None


def _how(code: int | None) -> str:
    if code is None:
        return "is gone"
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
