"""Random healthy programs end the same under Whence, without a finding above info.

Together the seeds cover nearly every value of every axis of `bench/soak`. `make soak` runs 500.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from forking import plain_run, whence_run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench" / "soak"))

from program import Program, compose

SEEDS = [
    *(8, 13, 21, 23, 25, 28, 41, 47, 86, 88, 103, 126, 140, 147, 148, 169, 173, 230, 261, 283),
    *(
        350,
        364,
        713,
        788,
        856,
        908,
        942,
        1009,
        1150,
        1337,
        1818,
        2048,
        2168,
        2224,
        2286,
        2330,
        2599,
        2927,
        2993,
        2999,
    ),
]
PROGRAMS = [compose(seed) for seed in SEEDS]


def last_line(stderr: str) -> str:
    """The last line of a traceback, or nothing."""
    lines = stderr.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]
    return (
        next((each for each in lines if each and not each.startswith(" ")), "")
        if "Traceback" in stderr
        else ""
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.seed}-{program.name}")
def test_random_program_is_left_alone(program: Program, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(program.source)
    plain = plain_run(script, cwd=tmp_path)
    watched = whence_run(script, cwd=tmp_path)
    assert watched.stdout == plain.stdout
    assert watched.code == plain.code
    assert last_line(watched.stderr) == last_line(plain.stderr)
    assert [(each["rule"], each["verdict"]) for each in watched.loud] == []


def test_programs_are_the_same_for_a_seed() -> None:
    assert compose(SEEDS[0]) == compose(SEEDS[0])
