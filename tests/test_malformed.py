"""Records and texts that somebody else made: shown without obeying them, or refused in one line."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forking import in_child, whence_run

from whence.cli import main
from whence.finding import (
    Confidence,
    Finding,
    Hop,
    Operand,
    Origin,
    Outcome,
    Proof,
    Report,
    Sample,
    Severity,
    Symptom,
)
from whence.record import document_of, read_document
from whence.report.escapes import escaped, escaped_line
from whence.report.note import render_note
from whence.report.terminal import console, render_finding, render_line, render_summary

CONTROLS = "\x1b[31m\x07\x08\r\x00\x7f\x85\x9b\x9d\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u2028"
EVIL = f"a{CONTROLS}b"


def finding(text: str) -> Finding:
    """A finding with a text everywhere."""
    return Finding(
        rule=text,
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        verdict=text,
        origin=Origin(text, 3, text, text, "data", 1, text, text, Sample(1, 2, 3, text, text)),
        symptom=Symptom(text, 4, text, text, 1),
        why=text,
        fix=text,
        chain=(Hop(text, 5, text, text),),
        patch=f"-{text}\n+{text}\n",
        proof=Proof(text, text),
        operands=(Operand(text, text),),
        table=(text, text),
    )


def report(text: str) -> Report:
    return Report(
        command=(text,),
        outcome=Outcome(1, text),
        steps=7,
        not_watched=(text,),
        findings=(finding(text),),
        finished=True,
    )


def controls_in(text: str) -> set[str]:
    return set(CONTROLS) & set(text) - set("[31m")


# what is printed


def test_control_characters_are_shown_in_escaped_form() -> None:
    assert escaped("\x1b[2J") == "\\x1b[2J"
    assert escaped("\x9b2J\u202eab\ud800\r") == "\\x9b2J\\u202eab\\ud800\\r"
    assert escaped_line("a\nb\tc") == "a\\nb\\tc"


@pytest.mark.parametrize(
    "text", ["größe", "损失", "λ·x → ∞", "👩‍🔬", "שלום", "two\nlines\tand a tab", "zero\u200bwidth"]
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert escaped(text) == text


def test_no_control_character_reaches_the_terminal() -> None:
    screen = console(width=60)
    with screen.capture() as shown:
        screen.print(render_finding(finding(EVIL)), crop=False)
        screen.print(render_line(finding(EVIL)))
        for line in render_summary(report(EVIL), EVIL):
            screen.print(line)
        screen.print(EVIL)
    assert controls_in(shown.get()) == set()
    assert "\\x1b[31m" in shown.get().replace("\n", "")
    assert "\\u202e" in shown.get()


def test_no_control_character_gets_into_the_note_of_an_exception() -> None:
    assert controls_in(render_note(finding(EVIL))) == set()
    assert "\\x1b[31m" in render_note(finding(EVIL))


def test_a_line_of_source_is_underlined_where_the_escaped_expression_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nrows = {'\x1b': torch.ones(3, 5)}['\x1b']\ntorch.nn.Linear(4, 2)(rows)\n"
    )
    shown = in_child(lambda: main(["run", "train.py"]), cwd=tmp_path).stderr.splitlines()
    number = max(n for n, line in enumerate(shown) if "^^^" in line)
    code, marks = shown[number - 1], shown[number]
    start, end = marks.index("^"), marks.rindex("^") + 1
    assert code[start:end] == "torch.ones(3, 5)"
    assert "\\x1b" in code


def test_a_program_with_hostile_names_and_exceptions_is_shown_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b]0;title\x07b"
    folder.mkdir()
    script = folder / "train\u202e.py"
    script.write_text(
        "import torch\ndef f(): torch.nn.Linear(4, 2)(torch.ones(3, 5))\ntry: f()\n"
        "except Exception: pass\n"
    )
    ran = whence_run(script, cwd=tmp_path)
    assert ran.findings
    assert controls_in(ran.stderr) == set()
    assert "\\x1b]0;title" in ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["run", EVIL.replace("\0", "")],
        ["run", "--fail-on", EVIL, "x.py"],
        ["run", f"--{EVIL}", "x.py"],
        ["report", EVIL.replace("\0", "")],
        ["report", EVIL],
        ["rule", EVIL],
        ["demo", EVIL.replace("\0", "")],
        [EVIL],
        ["check", EVIL.replace("\0", "")],
        ["report", "x" * 5000],
    ],
    ids=str,
)
def test_error_lines_are_escaped(tmp_path: Path, words: list[str]) -> None:
    ran = in_child(lambda: main(words), cwd=tmp_path)
    assert ran.code == 2, ran.stderr
    assert controls_in(ran.stderr) == set()
    assert "Traceback" not in ran.stderr


# what is read


def reported(path: Path, capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    try:
        main(["report", str(path), *options])
        code = 0
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    out, err = capfd.readouterr()
    return code, out, err


def assert_refused(code: int, out: str, err: str) -> None:
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("whence: ")


def test_a_record_of_everything_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    path.write_text(json.dumps(document_of(report("text"))))
    assert document_of(read_document(path)) == document_of(report("text"))


def test_names_that_are_not_utf8_can_be_recorded_and_read_again(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "findings.json"
    path.write_text(json.dumps(document_of(report("caf\udce9.py"))))
    code, out, err = reported(path, capfd)
    assert (code, err) == (0, "")
    assert "caf\\udce9.py" in out


def test_keys_that_a_later_version_adds_are_passed_over(tmp_path: Path) -> None:
    document = document_of(report("text"))
    document["added"] = document["findings"][0]["added"] = document["findings"][0]["origin"][
        "added"
    ] = {"x": 1}
    (tmp_path / "findings.json").write_text(json.dumps(document))
    assert read_document(tmp_path / "findings.json").findings == read_back(document)


def read_back(document: dict[str, Any]) -> tuple[Finding, ...]:
    shown_only = {"operands": (), "table": (), "span": None}
    from dataclasses import replace

    return tuple(replace(each, **shown_only) for each in report("text").findings)


def test_records_from_before_the_key_finished_are_read_as_they_were_meant(tmp_path: Path) -> None:
    document = document_of(report("text"))
    del document["finished"]
    path = tmp_path / "findings.json"
    path.write_text(json.dumps(document))
    assert read_document(path).finished
    document |= {"outcome": {"exit_code": None, "exception": None}, "steps": 0}
    path.write_text(json.dumps(document))
    assert not read_document(path).finished


WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**400, 1e308, "", "text", "\ud800", "\x1b[2J", [], [None], [[]], {},
    {"": None}, [{"a": 1}],
)  # fmt: skip


def places(thing: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of a document, at every depth."""
    inner = (
        thing.items()
        if isinstance(thing, dict)
        else enumerate(thing)
        if isinstance(thing, list)
        else ()
    )
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    holder: Any = made
    for key in path[:-1]:
        holder = holder[key]
    if value is places:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return made


def test_a_record_that_is_wrong_anywhere_is_shown_or_refused_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each key in turn gets each wrong value, or goes; then several at once, by chance."""
    document = document_of(report("text"))
    everywhere = list(places(document))
    made = [changed(document, path, value) for path in everywhere for value in (*WRONG, places)]
    chance = random.Random(21)
    for _ in range(200):
        mutant = document
        for _ in range(chance.randrange(2, 5)):
            path = chance.choice(list(places(mutant)))
            mutant = changed(mutant, path, chance.choice((*WRONG, places)))
        made.append(mutant)
    path, refused = tmp_path / "findings.json", 0
    for mutant in made:
        path.write_text(json.dumps(mutant))
        code, out, err = reported(path, capfd)
        if code == 0:
            assert err == ""
            assert controls_in(out) == set()
        else:
            assert_refused(code, out, err)
            refused += 1
    assert len(made) > 700
    assert refused > len(made) // 2


def test_every_value_of_a_wrong_type_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = document_of(report("text"))
    for path in places(document):
        (tmp_path / "findings.json").write_text(
            json.dumps(changed(document, path, {"not": ["expected"]}))
        )
        assert_refused(*reported(tmp_path / "findings.json", capfd))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff\xfe", b"\x00" * 100, b"{", b"[" * 200_000, b'{"a":' * 200_000, b"NaN",
        b"1" * 5000, b'"text"', b"\xef\xbb\xbf{}",
        json.dumps(document_of(report("x"))).replace('"steps": 7', '"steps": NaN').encode(),
        json.dumps(document_of(report("x"))).replace('"steps": 7', '"steps": 1e999').encode(),
        json.dumps(document_of(report("x"))).replace('"ratio": 1.0', '"ratio": 1e999').encode(),
        json.dumps(document_of(report("x"))).replace('"ratio": 1.0', '"ratio": Infinity').encode(),
        json.dumps(document_of(report("x"))).replace('"line": 3', '"line": ' + "9" * 5000).encode(),
        json.dumps(document_of(report("x")))
        .replace('"schema": 1', '"schema": "\\ud800\\u001b"').encode(),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("option", [[], ["--json"]], ids=["shown", "json"])
def test_a_file_that_is_no_record_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], data: bytes, option: list[str]
) -> None:
    (tmp_path / "findings.json").write_bytes(data)
    assert_refused(*reported(tmp_path / "findings.json", capfd, *option))


def test_a_folder_in_the_place_of_a_record_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "findings.json").mkdir()
    assert_refused(*reported(tmp_path / "findings.json", capfd))
    assert_refused(*reported(tmp_path, capfd))


def test_no_file_is_opened_because_a_record_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret.py").write_text("password\n" * 5)
    document = document_of(report("text"))
    document["findings"][0]["origin"]["file"] = str(tmp_path / "secret.py")
    (tmp_path / "findings.json").write_text(json.dumps(document))
    code, out, _ = reported(tmp_path / "findings.json", capfd)
    assert code == 0
    assert "password" not in out
