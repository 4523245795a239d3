"""Compare random healthy programs, plain and under `whence run`.

Both runs must end alike, without a finding above info. The stdout, the exit code and the last line
of a traceback are compared. If they differ, both runs are repeated: a program that differs from
itself without Whence is marked as unstable. Failing programs are saved with both outputs.

Usage: python bench/soak/compare.py --programs 500 --seed 1 --jobs 2 [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from program import Program, compose
from runs import Ran, Start, run_plain, run_watched


@dataclass
class Outcome:
    """The outcome of one program: differences, findings, and what was not watched."""

    program: Program
    plain: Ran
    watched: Ran
    differences: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    not_watched: list[str] = field(default_factory=list)
    unstable: str = ""

    @property
    def is_good(self) -> bool:
        return not self.differences and not self.findings


def differences(plain: Ran, watched: Ran) -> list[str]:
    found = []
    if plain.code != watched.code:
        found.append(f"exit code {plain.code} became {watched.code}")
    if plain.stdout != watched.stdout:
        found.append(f"stdout: {_first_difference(plain.stdout, watched.stdout)}")
    if plain.exception != watched.exception:
        found.append(f"exception: {plain.exception!r} became {watched.exception!r}")
    return found


def _first_difference(plain: str, watched: str) -> str:
    here, there = plain.splitlines(), watched.splitlines()
    for one, other in zip(here, there, strict=False):
        if one != other:
            return f"{one[:200]!r} became {other[:200]!r}"
    return f"{len(here)} lines became {len(there)}"


def compare(program: Program, folder: Path, start: Start) -> Outcome:
    script = folder / "train.py"
    script.write_text(program.source)
    plain = run_plain(script, start)
    watched, document = run_watched(script, start)
    outcome = Outcome(program, plain, watched, differences(plain, watched))
    if outcome.differences:
        again, (watched_again, _) = run_plain(script, start), run_watched(script, start)
        if differences(plain, again):
            outcome.unstable = "differs from itself without Whence"
        elif not differences(again, watched_again):
            outcome.unstable = "not again in a second run"
    if not document:
        outcome.differences.append("no findings.json was written")
    outcome.findings = [each for each in document.get("findings", []) if each["severity"] != "info"]
    outcome.not_watched = [str(each) for each in document.get("not_watched", [])]
    return outcome


def keep(outcome: Outcome, folder: Path) -> Path:
    """Save a program with the output of both runs and the findings."""
    place = folder / str(outcome.program.seed)
    place.mkdir(parents=True, exist_ok=True)
    (place / "train.py").write_text(outcome.program.source)
    for name, ran in (("plain", outcome.plain), ("watched", outcome.watched)):
        (place / f"{name}.stdout").write_text(ran.stdout)
        (place / f"{name}.stderr").write_text(ran.stderr)
    kept = {
        "differences": outcome.differences,
        "findings": outcome.findings,
        "unstable": outcome.unstable,
    }
    (place / "outcome.json").write_text(json.dumps(kept, indent=1))
    return place


def describe(outcome: Outcome) -> str:
    said = [*outcome.differences, *(_finding(each) for each in outcome.findings)]
    if outcome.unstable:
        said.append(f"({outcome.unstable})")
    return "; ".join(said)


def _finding(finding: dict[str, Any]) -> str:
    origin = finding.get("origin") or {}
    return (
        f"{finding['severity']} {finding['rule']} at line {origin.get('line')}: "
        f"{finding['verdict'][:120]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first program; the others follow"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "whence-soak")
    parser.add_argument(
        "--fork", action="store_true", help="quicker: fork from a process that has torch; one job"
    )
    chosen = parser.parse_args()
    start = Start.FORK if chosen.fork else Start.PROCESS

    def one(seed: int) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            return compare(compose(seed), Path(folder), start)

    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(chosen.jobs) as pool:
        # A fork starts from the main thread, so that the program's main thread has its usual name.
        in_turn = map if chosen.fork else pool.map
        for outcome in in_turn(one, range(chosen.seed, chosen.seed + chosen.programs)):
            outcomes.append(outcome)
            if not outcome.is_good:
                place = keep(outcome, chosen.keep)
                print(
                    f"{outcome.program.seed:>6} {outcome.program.name}\n"
                    f"       {describe(outcome)}\n       {place}",
                    flush=True,
                )
    print_summary(outcomes)
    sys.exit(any(not each.is_good for each in outcomes))


def print_summary(outcomes: list[Outcome]) -> None:
    differing = [each for each in outcomes if each.differences]
    found = [each for each in outcomes if each.findings]
    stable = [each for each in differing if not each.unstable]
    print(
        "\n"
        f"{len(outcomes)} programs: {len(differing)} differ ({len(stable)} of them each "
        f"time), {len(found)} have findings above info"
    )
    if outcomes:
        plain, watched = (
            sum(getattr(each, kind).seconds for each in outcomes) for kind in ("plain", "watched")
        )
        print(
            f"{plain / len(outcomes):.1f} s a program plain, {watched / len(outcomes):.1f} "
            "s watched"
        )
    for title, names in (
        ("rules", Counter(each["rule"] for outcome in found for each in outcome.findings)),
        ("not watched", Counter(each for outcome in outcomes for each in outcome.not_watched)),
    ):
        for name, times in names.most_common():
            print(f"{times:>6} {title}: {name}")
    for axis in ("task", "body", "optimizer", "loop", "loader", "oddities"):
        print(f"{axis}: {_share_by_axis(outcomes, axis)}")


def _share_by_axis(outcomes: list[Outcome], axis: str) -> str:
    """Count, for each value of an axis, the programs that had it and those that failed."""
    every: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for outcome in outcomes:
        for value in filter(None, outcome.program.axes.get(axis, "").split("+")):
            every[value] += 1
            failed[value] += not outcome.is_good
    return ", ".join(
        f"{value} {failed[value]}/{number}" if failed[value] else f"{value} {number}"
        for value, number in sorted(every.items())
    )


if __name__ == "__main__":
    main()
