"""Plant one fault in each random healthy program; check the reported rule and line.

Each kind of fault lists, before the run, the rules that may report it and the lines of its origin.

Usage: python bench/soak/faults.py --programs 120 --seed 7 [--jobs 2] [--keep FOLDER]
       [--kinds NAME ...]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from optimizers import STANDARD
from program import Program, compose
from runs import Ran, Start, run_watched

# Axes of the programs that receive a fault: nothing that hides a line or changes the fault.
ORDINARY = {
    "players": {"one"},
    "scope": {"module"},
    "training": {"optimizer"},
    "optimizer": set(STANDARD),
    "scheduler": {"none"},
    "gradients": {"plain"},
    "copy": {"none"},
    "ending": {"normal"},
    "oddities": {
        "deterministic",
        "log_thread",
        "forward_hooks",
        "checkpoint_file",
        "signals_listed",
    },
}
VISIBLE_LOOPS = {"epochs", "while", "function"}


class Unfit(Exception):
    """The program has no line in which this fault can be planted."""


@dataclass
class Draft:
    """The lines of a program while a fault is planted, and the lines where it begins."""

    lines: list[str]
    roles: dict[str, int]
    origins: set[int] = field(default_factory=set)

    def number(self, role: str) -> int:
        if role not in self.roles:
            raise Unfit(role)
        return self.roles[role]

    def replace(self, role: str, old: str, new: str) -> None:
        """Change text in the line of a role, which is the origin."""
        number = self.number(role)
        if old not in self.lines[number - 1]:
            raise Unfit(old)
        self.lines[number - 1] = self.lines[number - 1].replace(old, new, 1)
        self.origins.add(number)

    def insert_after(self, role: str, *texts: str) -> None:
        """Add lines below that of a role; the last one is the origin."""
        number = self.number(role)
        line = self.lines[number - 1]
        margin = line[: len(line) - len(line.lstrip())]
        self.lines[number:number] = [margin + each for each in texts]
        self.roles = {name: at + len(texts) * (at > number) for name, at in self.roles.items()}
        self.origins.add(number + len(texts))

    def remove(self, role: str, *near: str) -> None:
        """Remove the line of a role; the lines of other roles are the origin instead."""
        number = self.number(role)
        margin = re.match(r"\s*", self.lines[number - 1])
        assert margin
        self.lines[number - 1] = margin.group() + "pass"
        self.origins |= {self.number(each) for each in near}


@dataclass(frozen=True)
class Kind:
    """A fault: the programs it fits, how it is planted, and the rules that may report it."""

    axes: dict[str, set[str]]
    put: Callable[[Draft], None]
    rules: set[str]


def _float64_column(draft: Draft) -> None:
    draft.insert_after("targets", "features = torch.from_numpy(np.array(features.tolist()))")


def _in_features(draft: Draft) -> None:
    number = draft.number("head")
    found = re.search(r"nn\.Linear\((\d+), ", draft.lines[number - 1])
    if not found:
        raise Unfit("head")
    draft.replace("head", found.group(), f"nn.Linear({int(found.group(1)) + 4}, ")


def _target_column(draft: Draft) -> None:
    draft.insert_after("targets", "targets = targets.unsqueeze(1)")


def _no_zero_grad(draft: Draft) -> None:
    draft.remove("zero_grad", "backward", "step")


def _no_step(draft: Draft) -> None:
    draft.remove("step", "backward", "zero_grad", "optimizer")


def _eval_mode(draft: Draft) -> None:
    draft.replace("train_mode", ".train()", ".eval()")


def _double_softmax(draft: Draft) -> None:
    draft.replace("forward", "model(x)", "torch.softmax(model(x), dim=-1)")
    draft.origins.add(draft.number("loss"))


def _scale_rate(draft: Draft, factor: float) -> None:
    number = draft.number("optimizer")
    found = re.search(r"lr=([\d.e-]+)", draft.lines[number - 1])
    if not found:
        raise Unfit("lr")
    draft.replace("optimizer", found.group(), f"lr={float(found.group(1)) * factor:g}")


def _detached_head(draft: Draft) -> None:
    draft.roles["label_loss"] = draft.number("loss") + 1
    draft.replace("label_loss", 'outputs["label"]', 'outputs["label"].detach()')


def _missing_parameter(draft: Draft) -> None:
    draft.replace("optimizer", "model.parameters()", "model.body.parameters()")


def _graph_kept(draft: Draft) -> None:
    draft.replace("record", "loss.item()", "loss")


def _log_of_negative(draft: Draft) -> None:
    draft.replace("loss", "F.mse_loss(prediction, y)", "F.mse_loss(torch.log(prediction), y)")


def _division_by_zero(draft: Draft) -> None:
    lines = (
        "features[:, 0] = 3.0",
        "features = (features - features.mean(dim=0)) / features.std(dim=0)",
    )
    draft.insert_after("targets", *lines)


def _label_range(draft: Draft) -> None:
    draft.insert_after("targets", "labels = labels + 1")


def _softmax_axis(draft: Draft) -> None:
    draft.replace("loss", "dim=-1", "dim=0")


def _no_grad_forward(draft: Draft) -> None:
    number = draft.number("forward")
    line = draft.lines[number - 1]
    margin = line[: len(line) - len(line.lstrip())]
    draft.insert_after("forward", f"    {line.strip()}")
    draft.lines[number - 1] = f"{margin}with torch.no_grad():"
    draft.origins.add(number)


def _shuffled_labels(draft: Draft) -> None:
    draft.insert_after("targets", "labels = labels[torch.randperm(len(labels))]")


def _integer_target(draft: Draft) -> None:
    name = "targets" if "targets = " in draft.lines[draft.number("targets") - 1] else "marks"
    draft.insert_after("targets", f"{name} = {name}.long()")


def _float_labels(draft: Draft) -> None:
    draft.insert_after("targets", "labels = labels.float()")


def _wrong_sign(draft: Draft) -> None:
    draft.replace("backward", "loss.backward()", "(-loss).backward()")


def _gradient_cleared(draft: Draft) -> None:
    draft.insert_after("backward", "optimizer.zero_grad()")


def _best_is_an_alias(draft: Draft) -> None:
    found = [
        number
        for number, line in enumerate(draft.lines, 1)
        if "total, copy.deepcopy(model)" in line
    ]
    if not found:
        raise Unfit("copy")
    draft.roles["best"] = found[0]
    draft.replace("best", "copy.deepcopy(model)", "model")


PLAIN_REGRESSION = {"task": {"regression"}, "loss": {"mse"}}
PLAIN_CLASSES = {"task": {"classification"}, "loss": {"cross_entropy", "label_smoothing", "nll"}}
VECTOR = {"task": {"regression", "classification"}, "source": {"torch", "generator"}}
HEADED = {"task": {"regression", "classification", "images", "sequence", "tags", "tabular"}}
STATEFUL_MODES = {
    "body": {"batchnorm", "dropout", "conv_bn", "conv_residual"},
    "evaluation": {"none"},
}
SGD = {"optimizer": {"sgd", "momentum", "adam", "adamw_foreach"}}

KINDS = {
    "float64 column": Kind(VECTOR, _float64_column, {"dtype/float64-input", "dtype/mismatch"}),
    "wrong in_features": Kind(HEADED, _in_features, {"shape/linear-features"}),
    "target (n, 1)": Kind(
        {"task": {"regression"}, "loss": {"mse", "smooth_l1", "own_mse", "huber"}},
        _target_column,
        {"loss/broadcast"},
    ),
    "no zero_grad": Kind(HEADED, _no_zero_grad, {"optimizer/missing-zero-grad"}),
    "no step": Kind(HEADED, _no_step, {"optimizer/no-update", "optimizer/discarded-gradient"}),
    "eval left on": Kind(
        {"task": {"classification", "images", "regression"}, **STATEFUL_MODES},
        _eval_mode,
        {"optimizer/wrong-mode"},
    ),
    "double softmax": Kind(
        {"task": {"classification", "images"}, "loss": {"cross_entropy", "label_smoothing"}},
        _double_softmax,
        {"loss/double-softmax"},
    ),
    "rate x 1000": Kind(
        {**HEADED, **SGD},
        lambda draft: _scale_rate(draft, 1e3),
        {"optimizer/learning-rate-high", "gradient/exploding", "nonfinite/update"},
    ),
    "rate / 100000": Kind(
        {**HEADED, **SGD}, lambda draft: _scale_rate(draft, 1e-5), {"optimizer/learning-rate-low"}
    ),
    "detached term": Kind({"task": {"multi_task"}}, _detached_head, {"gradient/detached"}),
    "parameter missing": Kind(HEADED, _missing_parameter, {"optimizer/missing-parameter"}),
    "graph kept": Kind(
        {**HEADED, "loop": VISIBLE_LOOPS}, _graph_kept, {"memory/graph-kept", "memory/growth"}
    ),
    "log of negative": Kind(PLAIN_REGRESSION, _log_of_negative, {"nonfinite/forward"}),
    "division by zero": Kind(
        VECTOR, _division_by_zero, {"data/zero-variance", "data/nonfinite", "nonfinite/forward"}
    ),
    "label out of range": Kind(PLAIN_CLASSES, _label_range, {"data/label-range"}),
    "softmax over batch": Kind(
        {"task": {"classification", "images"}, "loss": {"nll"}},
        _softmax_axis,
        {"loss/softmax-axis"},
    ),
    "no_grad forward": Kind(HEADED, _no_grad_forward, {"gradient/no-graph"}),
    "shuffled labels": Kind(PLAIN_CLASSES, _shuffled_labels, {"data/misaligned"}),
    "integer target": Kind(
        {"task": {"regression", "tags"}, "loss": {"mse", "smooth_l1", "bce_with_logits", "bce"}},
        _integer_target,
        {"dtype/integer-target", "dtype/truncated-target"},
    ),
    "float labels": Kind(PLAIN_CLASSES, _float_labels, {"dtype/labels"}),
    "wrong sign": Kind(HEADED, _wrong_sign, {"loss/sign"}),
    "gradient cleared": Kind(HEADED, _gradient_cleared, {"optimizer/discarded-gradient"}),
    "best is an alias": Kind(
        {**HEADED, "copy": {"best"}}, _best_is_an_alias, {"optimizer/aliased-weights"}
    ),
}

COLUMNS = ("exact line", "line listed", "right rule, other line", "other rule", "missed")


@dataclass(frozen=True)
class Planted:
    """A program with one fault, and its expected diagnosis."""

    kind: str
    seed: int
    source: str
    rules: set[str]
    lines: set[int]
    name: str


@dataclass(frozen=True)
class Verdict:
    planted: Planted
    column: str
    findings: list[dict[str, Any]]
    ran: Ran


def plant(kind: str, seed: int) -> Planted:
    """Plant this fault in the first program, from this seed on, that has a place for it."""
    fault = KINDS[kind]
    for tried in range(seed, seed + 200):
        program: Program = compose(tried, {**ORDINARY, **fault.axes})
        draft = Draft(program.source.splitlines(), dict(program.roles))
        try:
            fault.put(draft)
        except Unfit:
            continue
        source = "\n".join(draft.lines) + "\n"
        return Planted(kind, tried, source, fault.rules, draft.origins, program.name)
    raise RuntimeError(f"no program has a place for the fault {kind!r}")


def judge(planted: Planted, findings: list[dict[str, Any]]) -> str:
    """The best column that one of the findings above info deserves."""
    loud = [each for each in findings if each["severity"] != "info"]
    right = [each for each in loud if each["rule"] in planted.rules]
    if any((each.get("origin") or {}).get("line") in planted.lines for each in right):
        return "exact line"
    if any(planted.lines & _listed(each) for each in right):
        return "line listed"
    if right:
        return "right rule, other line"
    return "other rule" if loud else "missed"


def _listed(finding: dict[str, Any]) -> set[int]:
    """Lines that the finding names in addition to its origin."""
    named = [
        *(finding.get("candidates") or []),
        *(finding.get("places") or []),
        *(finding.get("chain") or []),
    ]
    return {each["line"] for each in [*named, finding.get("symptom") or {}] if each.get("line")}


def try_fault(planted: Planted, start: Start, keep: Path) -> Verdict:
    place = keep / f"{planted.kind.replace(' ', '_').replace('/', 'by')}-{planted.seed}"
    place.mkdir(parents=True, exist_ok=True)
    script = place / "train.py"
    script.write_text(planted.source)
    ran, document = run_watched(script, start)
    findings = document.get("findings", [])
    verdict = Verdict(planted, judge(planted, findings), findings, ran)
    (place / "stderr").write_text(ran.stderr)
    expected = {
        "rules": sorted(planted.rules),
        "lines": sorted(planted.lines),
        "column": verdict.column,
    }
    (place / "expected.json").write_text(json.dumps(expected, indent=1))
    return verdict


def print_table(verdicts: list[Verdict]) -> None:
    print(f"\n{'':<22}" + "".join(f"{each:>{len(each) + 2}}" for each in COLUMNS))
    for kind in dict.fromkeys(each.planted.kind for each in verdicts):
        counted = Counter(each.column for each in verdicts if each.planted.kind == kind)
        print(
            f"{kind:<22}" + "".join(f"{counted[each] or '':>{len(each) + 2}}" for each in COLUMNS)
        )
    every = Counter(each.column for each in verdicts)
    print(f"{'all':<22}" + "".join(f"{every[each]:>{len(each) + 2}}" for each in COLUMNS))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=120)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "whence-faults")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument(
        "--fork", action="store_true", help="quicker: fork from a process that has torch; one job"
    )
    chosen = parser.parse_args()
    start = Start.FORK if chosen.fork else Start.PROCESS
    kinds = [chosen.kinds[index % len(chosen.kinds)] for index in range(chosen.programs)]
    planted = [plant(kind, 1000 * chosen.seed + 7 * index) for index, kind in enumerate(kinds)]
    verdicts = []
    with ThreadPoolExecutor(chosen.jobs) as pool:
        # A fork starts from the main thread, so that the program's main thread has its usual name.
        in_turn = map if chosen.fork else pool.map
        for verdict in in_turn(lambda each: try_fault(each, start, chosen.keep), planted):
            verdicts.append(verdict)
            if verdict.column != "exact line":
                print(describe(verdict), flush=True)
    print_table(verdicts)


def describe(verdict: Verdict) -> str:
    planted = verdict.planted
    said = [
        f"{each['severity']} {each['rule']} at line "
        f"{(each.get('origin') or {}).get('line')}: {each['verdict'][:100]}"
        for each in verdict.findings
    ]
    expected = f"{'|'.join(sorted(planted.rules))} at {sorted(planted.lines)}"
    head = (
        f"{verdict.column}: {planted.kind}, seed {planted.seed} ({planted.name}); expected "
        f"{expected}"
    )
    return "\n    ".join([head, *(said or ["no finding"])])


if __name__ == "__main__":
    main()
