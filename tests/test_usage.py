"""Wrong usage costs one clear line and nothing else; right usage does what the options say."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch._dynamo  # noqa: F401  what forked children would each import anew
from forking import Ran, in_child, whence_run

import whence.watching.session
from whence.cli import main
from whence.finding import Severity

# `in_child` leaves its two temporary files to the garbage collector.


HEALTHY = "print('done')\n"
# The exception is swallowed: the program ends with 0 and the finding is an error.
SWALLOWED = dedent("""\
    import torch
    rows = torch.ones(3, 5)  # HERE
    try:
        torch.nn.Linear(4, 2)(rows)
    except RuntimeError as error:
        print("caught", error)
""")
# The program has a fallback: the finding is a mere note.
MENDED = dedent("""\
    import torch
    rows = torch.ones(3, 5)
    try:
        result = torch.nn.Linear(4, 2)(rows)
    except RuntimeError:
        result = torch.nn.Linear(5, 2)(rows)
""")
RULE = "shape/linear-features"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(HEALTHY)
    (tmp_path / "empty").mkdir()
    return tmp_path


def whence_command(*words: str, cwd: Path, first: Callable[[], Any] = lambda: None) -> Ran:
    def action() -> None:
        first()
        main(list(words))

    return in_child(action, cwd=cwd)


def contents(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def assert_refused(
    *words: str, cwd: Path, saying: str, first: Callable[[], Any] = lambda: None
) -> None:
    """Exit code 2, one line on stderr that says what is wrong, nothing on stdout, no file
    touched.
    """
    before = contents(cwd)
    ran = whence_command(*words, cwd=cwd, first=first)
    assert ran.code == 2, ran.stderr
    assert ran.stderr.startswith("whence: ")
    assert ran.stderr.count("\n") == 1
    assert saying in ran.stderr
    assert ran.stdout == ""
    assert contents(cwd) == before


# wrong usage


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        (["run"], "nothing to run"),
        (["run", "--quiet"], "nothing to run"),
        (["run", "nosuch.py"], "nosuch.py"),
        (["run", ""], "no such script"),
        (["run", "empty"], "empty is a directory without a __main__.py"),
        (["run", "-m"], "-m needs a module name"),
        (["run", "-c"], "-c needs a piece of code"),
        (["run", "-m", "nosuch.module"], "nosuch.module"),
        (["run", "-m", "empty"], "empty"),
        (["nosuch", "train.py"], "unknown command 'nosuch'"),
        (["train.py"], "whence run train.py"),
        (
            ["run", "--select", "nosuch/rule", "train.py"],
            "--select: no rule or family named 'nosuch/rule'",
        ),
        (
            ["run", "--ignore", "shape,nosuch", "train.py"],
            "--ignore: no rule or family named 'nosuch'",
        ),
        (["run", "--select", "", "train.py"], "--select"),
        (
            ["run", "--fail-on", "fatal", "train.py"],
            "--fail-on must be one of info, warning, error, never; got 'fatal'",
        ),
        (
            ["run", "--stop-on", "fatal", "train.py"],
            "--stop-on must be one of info, warning, error, never; got 'fatal'",
        ),
        (["run", "--budget", "lots", "train.py"], "--budget must be a share"),
        (["run", "--budget", "0", "train.py"], "--budget must be a share"),
        (["run", "--budget", "-1", "train.py"], "--budget must be a share"),
        (["run", "--budget", "nan", "train.py"], "--budget must be a share"),
        (["run", "--budget", "2", "train.py"], "--budget must be a share"),
        (["run", "--json", "nosuch/findings.json", "train.py"], "nosuch/findings.json"),
        (["run", "--json", "empty", "train.py"], "--json empty"),
        (["run", "--json", "-", "train.py"], "--json - would mix with the program's output"),
        (["run", "--json", "train.py/findings.json", "train.py"], "train.py/findings.json"),
        (["report"], "no recorded run"),
        (["report", "nosuch"], "no recorded run at nosuch"),
        (["report", "empty"], "no recorded run at empty"),
        (["report", "train.py"], "train.py is not a findings.json"),
        (["rule", "nosuch"], "no rule named 'nosuch'"),
        (["rule", "shape/nosuch"], "shape/linear-features"),
        (["demo", "nosuch"], "no demo named 'nosuch'"),
        (["demo", ".."], "no demo named '..'"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_refused_in_one_line(folder: Path, words: list[str], saying: str) -> None:
    assert_refused(*words, cwd=folder, saying=saying)


@pytest.mark.parametrize(
    "words",
    [["run", "--nosuch", "train.py"], ["run", "--json"], ["rule", "a", "b"], ["report", "-x"]],
)
def test_an_unknown_option_is_refused_before_anything_is_written(
    folder: Path, words: list[str]
) -> None:
    before = contents(folder)
    ran = whence_command(*words, cwd=folder)
    assert ran.code == 2
    assert "error:" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
    assert (ran.stdout, contents(folder)) == ("", before)


def test_an_unreadable_script_is_refused(folder: Path) -> None:
    def forbid() -> None:  # for root every file is readable
        def open_code(path: str) -> Any:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

        io.open_code = open_code

    assert_refused(
        "run",
        "train.py",
        cwd=folder,
        saying="cannot read train.py: Permission denied",
        first=forbid,
    )


@pytest.mark.parametrize(
    ("text", "saying"),
    [
        (
            "[tool.whence]\nselct = ['shape']",
            "unknown key 'selct' in [tool.whence]; valid keys are select, ignore",
        ),
        ("[tool.whence]\nselect = 'shape'", "select in [tool.whence] must be a list"),
        ("[tool.whence]\nselect = [1]", "select in [tool.whence] must be a list"),
        ("[tool.whence]\nignore = ['nosuch']", "no rule or family named 'nosuch'"),
        ("[tool.whence]\nbudget = 'lots'", "budget in [tool.whence] must be a share"),
        ("[tool.whence]\nbudget = true", "budget in [tool.whence] must be a share"),
        ("[tool.whence]\nbudget = 0", "budget in [tool.whence] must be a share"),
        ("[tool.whence]\nno_values = 1", "no-values in [tool.whence] must be true or false"),
        ("[tool.whence]\nfail-on = 'fatal'", "fail-on must be one of"),
        ("[tool.whence]\nfail-on = ['error']", "fail-on must be one of"),
        ("[tool.whence]\nfail-on = false", "fail-on must be one of"),
        ("[tool]\nwhence = 3", "[tool.whence] must be a table"),
        ("[[tool.whence]]\nbudget = 0.1", "[tool.whence] must be a table"),
        ("tool = 3", "pyproject.toml"),
        ("[tool.whence\n", "cannot be read as TOML"),
        ("name = 'caf\udce9'", "cannot be read as TOML"),
    ],
)
def test_a_wrong_pyproject_is_refused_with_its_path(folder: Path, text: str, saying: str) -> None:
    (folder / "pyproject.toml").write_bytes(text.encode(errors="surrogateescape"))
    assert_refused("run", "train.py", cwd=folder, saying=saying)
    assert_refused("run", "train.py", cwd=folder, saying=str(folder / "pyproject.toml"))


GOOD_DOCUMENT = {
    "schema": 1,
    "whence": "0.2.0",
    "command": ["train.py"],
    "finished": True,
    "outcome": {"exit_code": 0, "exception": None},
    "steps": 1,
    "overhead": {"ratio": 1.0, "seconds": 0.0},
    "not_watched": [],
    "findings": [],
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "\0",
        "caf\udce9",
        json.dumps(GOOD_DOCUMENT)[:-9],
        json.dumps(GOOD_DOCUMENT | {"schema": 2}),
        json.dumps(GOOD_DOCUMENT | {"outcome": {"exit": 0}}),
        json.dumps(GOOD_DOCUMENT | {"outcome": []}),
        json.dumps(GOOD_DOCUMENT | {"overhead": {"ratio": "x", "seconds": 0}}),
        json.dumps(GOOD_DOCUMENT | {"steps": float("inf")}),
        json.dumps(GOOD_DOCUMENT | {"findings": 3}),
        json.dumps(GOOD_DOCUMENT | {"findings": [{"rule": RULE}]}),
        "[" * 100_000,
    ],
    ids=lambda text: text[:40].encode(errors="surrogateescape").hex()[:16] or "empty",
)
def test_a_damaged_findings_json_is_refused(folder: Path, text: str) -> None:
    run = folder / ".whence" / "20260101-120000-train"
    run.mkdir(parents=True)
    (run / "findings.json").write_bytes(text.encode(errors="surrogateescape"))
    assert_refused("report", cwd=folder, saying="findings.json")


def damage(finding: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    outer, _, inner = path.partition(".")
    return finding | {outer: damage(finding[outer], inner, value) if inner else value}


@pytest.mark.parametrize("path", ["verdict", "patch", "origin.line"])
def test_a_finding_with_a_field_of_the_wrong_type_is_refused(folder: Path, path: str) -> None:
    (folder / "train.py").write_text(SWALLOWED)
    document = whence_run(folder / "train.py", cwd=folder).document
    document["findings"] = [damage(document["findings"][0], path, {"not": "expected"})]
    (folder / "damaged.json").write_text(json.dumps(document))
    assert_refused("report", "damaged.json", cwd=folder, saying="damaged.json")


# what the options do


def run(folder: Path, *options: str, text: str = SWALLOWED) -> Ran:
    """`whence run` on a program in a folder; its findings are those of the newest run."""
    (folder / "train.py").write_text(text)
    ran = in_child(lambda: main(["run", *options, "train.py"]), cwd=folder)
    ran.document = json.loads(max(folder.glob(".whence/*/findings.json")).read_text())
    return ran


def rules(ran: Ran) -> list[str]:
    return [each["rule"] for each in ran.findings]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], [RULE]),
        (["--select", RULE], [RULE]),
        (["--select", "shape"], [RULE]),
        (["--select=dtype, shape/"], [RULE]),
        (["--select", "dtype"], []),
        (["--ignore", RULE], []),
        (["--ignore", "shape"], []),
        (["--ignore", "dtype"], [RULE]),
        (["--select", "shape", "--ignore", RULE], []),
    ],
    ids=str,
)
def test_select_and_ignore_choose_rules_and_families(
    tmp_path: Path, options: list[str], found: list[str]
) -> None:
    ran = run(tmp_path, *options)
    assert rules(ran) == found
    assert (f"{RULE} ·" in ran.stderr) == bool(found)


def test_two_dashes_end_whences_own_options(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    ran = whence_command("run", "--quiet", "--", "train.py", cwd=tmp_path)
    assert (ran.code, ran.stdout, ran.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (SWALLOWED, [], 0),
        (SWALLOWED, ["--fail-on", "never"], 0),
        (SWALLOWED, ["--fail-on", "error"], 1),
        (SWALLOWED, ["--fail-on", "info"], 1),
        (MENDED, ["--fail-on", "warning"], 0),
        (MENDED, ["--fail-on", "info"], 1),
        (HEALTHY, ["--fail-on", "info"], 0),
        (SWALLOWED + "raise SystemExit(0)\n", ["--fail-on", "error"], 1),
        (SWALLOWED + "raise SystemExit(3)\n", ["--fail-on", "error"], 3),
        (SWALLOWED, ["--fail-on", "error", "--ignore", "shape"], 0),
    ],
)
def test_fail_on_turns_findings_into_exit_code_1(
    tmp_path: Path, text: str, options: list[str], code: int
) -> None:
    assert run(tmp_path, *options, text=text).code == code


@pytest.mark.parametrize(
    ("options", "reached"),
    [([], True), (["--stop-on", "never"], True), (["--stop-on", "error"], False)],
)
def test_stop_on_ends_the_program_at_the_finding(
    tmp_path: Path, options: list[str], reached: bool
) -> None:
    ran = run(tmp_path, *options)
    assert ("caught" in ran.stdout) == reached
    assert ran.code == (0 if reached else 1)
    assert rules(ran) == [RULE]


def test_stop_on_error_lets_notes_pass(tmp_path: Path) -> None:
    ran = run(tmp_path, "--stop-on", "error", text=MENDED + "print('end')\n")
    assert (ran.code, ran.stdout, len(ran.findings)) == (0, "end\n", 1)


def test_pyproject_sets_the_defaults_and_the_command_line_overrules_them(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.whence]\nfail-on = 'error'\nselect = ['{RULE}']\nbudget = 0.5\n"
    )
    below = tmp_path / "below"
    below.mkdir()
    assert run(below).code == 1
    assert run(below, "--fail-on", "never").code == 0
    assert run(below, "--select", "dtype").code == 0


def test_quiet_says_nothing_of_a_healthy_program_or_of_notes(tmp_path: Path) -> None:
    assert run(tmp_path, "--quiet", text=HEALTHY).stderr == ""
    assert run(tmp_path, "--quiet", text=MENDED).stderr == ""


def test_quiet_still_tells_errors(tmp_path: Path) -> None:
    stderr = run(tmp_path, "--quiet").stderr
    assert RULE in stderr
    assert "watched" not in stderr


def test_a_finding_is_told_while_the_program_goes_on(tmp_path: Path) -> None:
    later = (
        "import sys\nfor _ in range(10): torch.ones(2) + 1\nprint('hours later', file=sys.stderr)\n"
    )
    stderr = run(tmp_path, text=SWALLOWED + later).stderr
    assert 0 <= stderr.find(RULE) < stderr.index("hours later")


def test_the_summary_of_a_healthy_program_is_one_line(tmp_path: Path) -> None:
    assert run(tmp_path, text=HEALTHY).stderr.count("\n") == 1


# where the document goes


def test_json_writes_the_same_document_elsewhere(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "--json",
        "findings.json",
        text="import os; os.mkdir('x'); os.chdir('x')\n" + SWALLOWED,
    )
    assert json.loads((tmp_path / "findings.json").read_text()) == ran.document
    assert len(ran.findings) == 1


def test_json_to_a_pipe_writes_into_it_and_does_not_replace_it(tmp_path: Path) -> None:
    """`--json /dev/null` as root must not make a plain file of it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    ran = run(tmp_path, "--json", "pipe", text=HEALTHY)
    written = os.read(reading, 1 << 16)
    os.close(reading)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert json.loads(written) == ran.document


def test_json_to_a_link_writes_where_it_points(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "findings.json")
    ran = run(tmp_path, "--json", "link.json", text=HEALTHY)
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real" / "findings.json").read_text()) == ran.document


def test_two_runs_in_the_same_second_keep_a_record_each(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; sys.exit(int(sys.argv[1]))")

    def stop_the_clock() -> None:
        time.strftime = lambda *_: "20260101-120000"

    for code in ("3", "4"):
        assert whence_command(
            "run", "train.py", code, cwd=tmp_path, first=stop_the_clock
        ).code == int(code)
    documents = [
        json.loads(each.read_text()) for each in sorted(tmp_path.glob(".whence/*/findings.json"))
    ]
    assert [each["command"] for each in documents] == [["train.py", "3"], ["train.py", "4"]]
    assert [each["outcome"]["exit_code"] for each in documents] == [3, 4]


@pytest.mark.parametrize(
    "words", [["-m", "package.train"], ["-c", "pass"], ["package/train.py"], ["package"]], ids=str
)
def test_the_run_folder_is_named_after_the_program_and_lies_in_dot_whence(
    tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "package").mkdir()
    for name in ("train.py", "__main__.py"):
        (tmp_path / "package" / name).write_text("")
    assert whence_command("run", *words, cwd=tmp_path).code == 0
    (run_folder,) = (each for each in (tmp_path / ".whence").iterdir() if each.is_dir())
    name = {
        "-m": "package.train",
        "-c": "command",
        "package/train.py": "train",
        "package": "package",
    }[words[0]]
    assert re.fullmatch(rf"\d{{8}}-\d{{6}}-{re.escape(name)}", run_folder.name)
    assert [each.name for each in run_folder.iterdir()] == ["findings.json"]


# what the document holds

DATASET = dedent("""\
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, index):
            row = np.zeros(4)
            return row

    model = torch.nn.Linear(4, 1)
    for batch in DataLoader(Rows(), batch_size=4):
        model(batch)
""")
KEYS = {
    "": {
        "schema",
        "whence",
        "command",
        "finished",
        "outcome",
        "steps",
        "overhead",
        "not_watched",
        "findings",
    },
    "outcome": {"exit_code", "exception"},
    "overhead": {"ratio", "seconds"},
}
FINDING_KEYS = {
    "": {
        "rule", "severity", "confidence", "verdict", "origin", "symptom", "chain", "why", "fix",
        "patch", "proof", "occurrences",
    },
    "origin": {"file", "line", "code", "function", "op", "module", "phase", "step", "sample"},
    "symptom": {"file", "line", "code", "step", "what"},
    "proof": {"replay", "counterfactual"},
}  # fmt: skip


def test_the_document_has_exactly_the_keys_of_the_schema(tmp_path: Path) -> None:
    document = run(tmp_path, text=DATASET).document
    for name, keys in KEYS.items():
        assert set(document[name] if name else document) == keys
    (finding,) = document["findings"]
    for name, keys in FINDING_KEYS.items():
        assert set(finding[name] if name else finding) == keys
    assert set(finding["origin"]["sample"]) == {
        "batch",
        "position",
        "dataset_index",
        "leaf",
        "path",
    }
    assert all(set(hop) == {"file", "line", "code", "what"} for hop in finding["chain"])


def test_the_document_has_the_values_of_the_schema(tmp_path: Path) -> None:
    document = run(tmp_path, text=DATASET).document
    (finding,) = document["findings"]
    assert (document["schema"], document["whence"], document["command"]) == (
        1,
        whence.__version__,
        ["train.py"],
    )
    assert finding["severity"] in list(Severity)
    assert finding["confidence"] in ("proven", "likely", "hint")
    assert finding["origin"]["phase"] in ("program", "data", "forward", "backward", "optimizer")
    assert (finding["origin"]["file"], finding["origin"]["line"]) == ("train.py", 9)
    assert (finding["symptom"]["file"], finding["symptom"]["line"]) == ("train.py", 14)


def test_the_record_can_be_read_again_and_is_the_same(tmp_path: Path) -> None:
    document = run(tmp_path, text=DATASET).document
    again = whence_command("report", "--json", cwd=tmp_path)
    assert (again.code, json.loads(again.stdout)) == (0, document)
    shown = whence_command("report", cwd=tmp_path)
    assert (shown.code, shown.stderr) == (0, "")
    assert document["findings"][0]["rule"] in shown.stdout


def test_report_shows_the_newest_run(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, text=HEALTHY)
    assert "nothing found" in whence_command("report", cwd=tmp_path).stdout


# suppressions


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        (f"# whence: ignore[{RULE}]", False),
        (f"#whence:ignore[dtype/mismatch, {RULE}]  because of the test", False),
        (f"# noqa: E501  # whence: ignore[{RULE}]", False),
        ("# whence: ignore[dtype/mismatch]", True),
        ("# whence: ignore[]", True),
        ("# HERE", True),
    ],
)
def test_a_comment_on_the_origins_line_suppresses_that_rule(
    tmp_path: Path, comment: str, found: bool
) -> None:
    ran = run(tmp_path, "--fail-on", "info", text=SWALLOWED.replace("# HERE", comment))
    assert rules(ran) == ([RULE] if found else [])
    assert ran.code == (1 if found else 0)
    assert (RULE in ran.stderr) == found


def test_a_suppressed_finding_leaves_no_note_on_the_exception(tmp_path: Path) -> None:
    lines = (
        f"import torch\nrows = torch.ones(3, 5)  # whence: ignore[{RULE}]\n"
        "torch.nn.Linear(4, 2)(rows)\n"
    )
    ran = run(tmp_path, text=lines)
    assert (ran.code, ran.findings) == (1, [])
    assert "whence: " not in ran.stderr.replace("# whence: ignore", "")


def test_a_suppression_counts_after_the_program_changed_its_working_folder(tmp_path: Path) -> None:
    text = "import os; os.makedirs('x', exist_ok=True); os.chdir('x')\n" + SWALLOWED
    assert rules(run(tmp_path, text=text.replace("# HERE", f"# whence: ignore[{RULE}]"))) == []


# colour

COLOUR = re.compile(r"\x1b\[(?:\d+;)*[39]\d[;m]")


@pytest.mark.parametrize(("no_colour", "coloured"), [(None, True), ("1", False)])
def test_no_color_takes_the_colours_away_even_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_colour: str | None, coloured: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_colour is None:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", no_colour)
    stderr = run(tmp_path).stderr
    assert bool(COLOUR.search(stderr)) == coloured
    assert RULE in stderr


def test_a_pipe_gets_no_escape_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in run(tmp_path).stderr


# the other commands


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        (["--help"], "whence run train.py"),
        (["--version"], whence.__version__),
        (["run", "--help"], "--fail-on"),
        (["rule"], RULE),
        (["rule", RULE], "How to fix it"),
        (["demo", "--list"], "dtype/float64-input--dataset"),
    ],
    ids=" ".join,
)
def test_questions_are_answered_on_stdout_with_0(
    folder: Path, words: list[str], saying: str
) -> None:
    before = contents(folder)
    ran = whence_command(*words, cwd=folder)
    assert (ran.code, ran.stderr) == (0, "")
    assert saying in ran.stdout
    assert contents(folder) == before


def test_demo_runs_a_broken_program_and_explains_it(tmp_path: Path) -> None:
    ran = whence_command("demo", "dtype/float64-input", cwd=tmp_path)
    assert ran.code == 1
    assert "dtype/float64-input · proven" in ran.stderr
