"""A worker died, hangs, or raised.

What happened
    A DataLoader worker process ended without a message, does not return from a sample, or raised an
    error unrelated to one sample: in worker_init_fn, when it started to read, while it collated.
Why it matters
    The message has a process id but not what the worker was doing, or the program's line is hidden
    in a long text. A worker that hangs gives no message at all.
How it is detected
    Workers that are no longer alive when the loader fails, or that the program waits for while
    nothing computes. Their samples are fetched again in a child process that reports each line
    before it runs. A worker's exception arrives with its traceback; the worker is started again in
    a child process, with its seed, to see the line with its values.
How to fix it
    Fix the sample or the line. If the system killed the worker, use fewer workers or less memory.
When it stays silent
    If another rule knows more: a sample that raises is data/corrupt-sample. Slow workers, as long
    as something computes.
Cost
    A check of the processor time twice per second, in a separate thread.
"""

from __future__ import annotations

from dataclasses import replace

from whence.finding import Confidence, Finding, Operand, Sample
from whence.lineage.datasets.workers import Ending, spot_at_line
from whence.lineage.trail import Birth, Trail
from whence.rules.data.corrupt import named, sample_being_collated, sample_text
from whence.rules.data.streamed import shown
from whence.rules.rule import Rank, rule
from whence.rules.telling import failure_finding
from whence.source.spots import Spot
from whence.tape.batches import Lost
from whence.tape.failed import FailedCall, Fetching, Stage


@rule("data/worker-failure", Rank.PLACE)
def worker_failure(failed: FailedCall) -> Finding | None:
    fetching = failed.fetching
    if fetching is None or fetching.worker is None:
        return None
    return _lost(failed, fetching, fetching.lost[0]) if fetching.lost else _raised(failed, fetching)


def _raised(failed: FailedCall, fetching: Fetching) -> Finding | None:
    """An exception seen again with all its frames, or known only from the worker's traceback."""
    raised = fetching.raised
    if raised is not None:
        spot = spot_at_line(raised.filename, raised.line)
        kind, text, stage = raised.kind, raised.text, raised.stage
    else:
        spot = Spot.of_site(failed.site) if failed.site is not None else None
        kind, text, stage = (
            type(failed.exception).__name__,
            str(failed.exception).split("\n")[0],
            fetching.stage,
        )
    if spot is None:
        return None
    position = sample_being_collated(failed, fetching) if raised is None else None
    at = f", at {sample_text(fetching, position)}" if position is not None else ""
    sample = named(fetching, position) if position is not None else None
    return failure_finding(
        failed,
        "data/worker-failure",
        verdict=f"worker {fetching.worker} raised {kind} {stage.value}{at}",
        trail=Trail(Birth.SAMPLE, spot, phase="data", sample=sample),
        why=f"{kind}: {text.removeprefix(kind + ': ')}",
        fix="Fix this line. With num_workers=0 it raises in the main process, where a debugger can "
        "stop."
        if stage is not Stage.BEGINNING
        else "Fix this line: it runs in each worker before the first sample, and not at all with "
        "num_workers=0.",
        operands=shown(failed.frames[:1]) if raised is None else (),
        counterfactual="started again in a child process with the same seed, it raises there too"
        if raised is None
        else None,
    )


def _lost(failed: FailedCall, fetching: Fetching, lost: Lost) -> Finding | None:
    ending: Ending | None = fetching.ending
    spot = ending.spot if ending is not None else None
    index = ending.index if ending is not None and isinstance(ending.index, int) else None
    sample = Sample(batch=fetching.info.batches, dataset_index=index) if index is not None else None
    of = f" at sample {index}" if index is not None else ""
    rest = f" and {len(lost.indices) - 8} more" if len(lost.indices) > 8 else ""
    listed = f"{', '.join(map(str, lost.indices[:8]))}{rest}"
    asked = f" It was fetching samples {listed}." if lost.indices else ""
    raised = ending.raised if ending is not None else ""
    if lost.is_alive:
        verdict = f"worker {lost.number} (pid {lost.pid}) hangs{of}"
        why = f"Nothing computes any more, and the loader waits for this worker.{asked}"
        if not isinstance(failed.exception, TimeoutError):
            why = f"The loader has waited for this worker for its full timeout.{asked}"
        if raised:
            why = (
                f"The worker raised {raised}, which cannot be pickled, so the exception never "
                f"reaches the program, which waits for it.{asked}"
            )
    else:
        verdict = f"worker {lost.number} (pid {lost.pid}) {_how(lost.exit_code)}{of}"
        why = f"The process ended without an exception.{asked}"
        if raised:
            why = f"The worker raised {raised} while it received its copy of the dataset.{asked}"
    finding = failure_finding(
        failed,
        "data/worker-failure",
        verdict=verdict,
        trail=Trail(Birth.SAMPLE, spot or fetching.info.built, phase="data", sample=sample),
        why=why,
        fix=_fix(lost, spot, raised, was_tried=ending is not None and ending.how != "unknown"),
        confidence=Confidence.PROVEN if spot is not None else Confidence.LIKELY,
        operands=(
            Operand(
                "worker",
                f"pid {lost.pid}, {'alive' if lost.is_alive else f'exit code {lost.exit_code}'}",
            ),
        ),
        counterfactual=f"the same fetch in a child process {ending.how} at this line{of}"
        if ending is not None and spot is not None
        else None,
    )
    if finding is None:
        return None
    return replace(finding, origin=replace(finding.origin, sample=sample))


def _fix(lost: Lost, spot: Spot | None, raised: str, *, was_tried: bool) -> str:
    if lost.is_alive and raised:
        return (
            f"Fix the line that raises it. Define {raised} in a module with one string argument, "
            "or raise a built-in exception."
        )
    if spot is not None:
        return (
            "Fix the line that ends or blocks the process."
            if not raised
            else "Fix the line that raises."
        )
    if not was_tried:
        return "Run with num_workers=0 to see the line that ends or blocks the worker."
    if lost.is_alive:
        return (
            "Create locks, queues and connections inside the worker, or start it with "
            "multiprocessing_context='spawn'. Fetched again alone, the samples succeed, so the "
            "worker probably waits for a resource that another thread held when it was forked."
        )
    return (
        "Check memory usage (the system kills processes that use too much), or use fewer workers. "
        "Fetched again alone, the samples succeed."
    )


def _how(code: int | None) -> str:
    if code is None:
        return "is gone"
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
