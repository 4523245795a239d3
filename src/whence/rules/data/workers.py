"""A worker died, hangs, or raised.

What happened
    A worker process of a DataLoader ended without a word, does not come back from a sample, or raised something that has nothing to
    do with one sample: in worker_init_fn, when it began to read, while it put samples together.
Why it matters
    The message has a process number and nothing of what it was doing, or the user's line is lost in a long text; a worker that hangs
    gives no message at all.
How it is detected
    Workers that are no longer alive when the loader fails, or that the program waits for while nothing computes. What they were asked
    for is fetched again in a child process that tells each line before it runs it. What a worker raised comes home with its
    traceback; it is begun again in a child process, with the seed that it had, to see the line with its values.
How to fix it
    Mend the sample or the line. Where the system killed it, use fewer workers or less memory.
When it stays silent
    Where another rule knows more: a sample that raises is a corrupt sample. Slow workers, as long as something computes.
Cost
    A look at the processor time twice a second, in a thread of its own.
"""

from __future__ import annotations

from dataclasses import replace

from whence.finding import Confidence, Finding, Operand, Sample
from whence.lineage.datasets.workers import Ending, spot_at_line
from whence.lineage.trail import Birth, Trail
from whence.rules.data.corrupt import named, sample_in_hand, sample_text
from whence.rules.data.streamed import shown
from whence.rules.rule import Rank, rule
from whence.rules.telling import tell
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
    """Seen again with all its frames, or known from the text alone that came home."""
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
    position = sample_in_hand(failed, fetching) if raised is None else None
    at = f", at {sample_text(fetching, position)}" if position is not None else ""
    sample = named(fetching, position) if position is not None else None
    return tell(
        failed,
        "data/worker-failure",
        verdict=f"worker {fetching.worker} raised {kind} {stage.value}{at}",
        trail=Trail(Birth.SAMPLE, spot, phase="data", sample=sample),
        why=f"{kind}: {text.removeprefix(kind + ': ')}",
        fix="Mend this line. With num_workers=0 it is raised in the program itself, where a debugger reaches it."
        if stage is not Stage.BEGINNING
        else "Mend this line: it runs in each worker before the first sample, and not at all with num_workers=0.",
        operands=shown(failed.frames[:1]) if raised is None else (),
        counterfactual="begun again in a child process, with the same seed, it raises there as well"
        if raised is None
        else None,
    )


def _lost(failed: FailedCall, fetching: Fetching, lost: Lost) -> Finding | None:
    ending: Ending | None = fetching.ending
    spot = ending.spot if ending is not None else None
    index = ending.index if ending is not None and isinstance(ending.index, int) else None
    sample = Sample(batch=fetching.info.batches, dataset_index=index) if index is not None else None
    of = f" at sample {index}" if index is not None else ""
    listed = f"{', '.join(map(str, lost.indices[:8]))}{' ...' if len(lost.indices) > 8 else ''}"
    asked = f" It was asked for samples {listed}." if lost.indices else ""
    raised = ending.raised if ending is not None else ""
    if lost.is_alive:
        verdict = f"worker {lost.number} (pid {lost.pid}) hangs{of}"
        why = f"Nothing computes any more, and the loader waits for it.{asked}"
        if not isinstance(failed.exception, TimeoutError):
            why = f"The loader has waited for it for as long as its timeout says.{asked}"
        if raised:
            why = f"It raised {raised}, which cannot be pickled: it never reaches the program, which waits for it.{asked}"
    else:
        verdict = f"worker {lost.number} (pid {lost.pid}) {_how(lost.exit_code)}{of}"
        why = f"It raised nothing: the process ended.{asked}"
        if raised:
            why = f"It raised {raised} while the copy of the dataset was made that each worker gets here.{asked}"
    told = tell(
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
        counterfactual=f"fetched again in a child process, {f'sample {index}' if index is not None else 'it'} {ending.how} at this line"
        if ending is not None and spot is not None
        else None,
    )
    return replace(told, origin=replace(told.origin, sample=sample)) if told is not None else None


def _fix(lost: Lost, spot: Spot | None, raised: str, *, was_tried: bool) -> str:
    if lost.is_alive and raised:
        return f"Mend what raises it; define {raised} in a module, with one text as its argument, or raise one of Python's own."
    if spot is not None:
        return (
            "Mend the line that ends or blocks the process."
            if not raised
            else "Mend the line that raises."
        )
    if not was_tried:
        return "Fetch its samples in this process, with num_workers=0, to see the line that ends or blocks it."
    if lost.is_alive:
        return (
            "Fetched again by itself it goes well: it waits for what somebody else had when the worker was made, a lock of another "
            "thread, a queue, a connection. Make such things within the worker, or start it with multiprocessing_context='spawn'."
        )
    return "Fetched again by itself it goes well: look at memory (the system kills what takes too much), or use fewer workers."


def _how(code: int | None) -> str:
    if code is None:
        return "is gone"
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
