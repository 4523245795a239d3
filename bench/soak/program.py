"""Random training programs: from a seed, a complete script that is healthy and often unusual.

Every program is seeded, runs on the CPU and prints its losses. It ends with hashes of its weights,
buffers, optimizer states and random streams, and with counts of how often its own code ran.

Usage: python bench/soak/program.py SEED [axis=value ...]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bodies import STATEFUL
from draw import Draw
from endings import FINGERPRINT, closing_text, state_text, write_ending
from gan import write_gan
from loaders import write_loader
from loops import compute_loss_text, func_step_text, step_text, training_text
from oddities import Scene, write_oddities
from optimizers import SPECIAL, write_copy, write_optimizer
from script import Script, block, indent, strip_roles
from tasks import HELD_OUT, Task, write_task

ALWAYS = {
    "import collections",
    "import hashlib",
    "import random",
    "import numpy as np",
    "import torch",
    "import torch.nn.functional as F",
    "from torch import nn",
}


@dataclass(frozen=True)
class Program:
    """A script, the choice on each axis, and the lines in which faults can be planted."""

    seed: int
    source: str
    axes: dict[str, str]
    roles: dict[str, int]

    @property
    def name(self) -> str:
        shown = ("task", "body", "loss", "optimizer", "loop", "loader", "oddities")
        return "-".join(self.axes[each] for each in shown if self.axes.get(each))


def compose(seed: int, fixed: Mapping[str, Collection[str]] | None = None) -> Program:
    """Write the program of this seed; `fixed` limits the choices on some axes."""
    draw = Draw(seed, fixed)
    script = Script()
    if draw.axis("players", ["one"] * 24 + ["two"]) == "two":
        return _finished(seed, draw, script, write_gan(draw, script))
    task = write_task(draw, script)
    epochs, batch_size = draw.number(3, 4, 5), draw.number(16, 32)
    rows = task.rows - HELD_OUT
    scope = draw.axis("scope", ["module"] * 6 + ["main", "ensemble"])
    if scope == "ensemble":
        epochs = 2
    module = task.parameters == "model.parameters()"
    parameters = task.parameters
    if draw.axes["body"] == "low_rank":
        parameters = "[each for each in model.parameters() if each.requires_grad]"
    how = draw.axis("training", ["optimizer"] * 12 + ["torch_func", "per_sample"])
    functional = how != "optimizer" and _can_be_functional(draw, task, scope)
    if not functional:
        draw.axes["training"] = "optimizer"

    full_batch = draw.chance(0.08) and task.deterministic and not functional
    if full_batch:
        batch_size = rows
    loader = write_loader(draw, script, task, rows=rows, batch_size=batch_size)
    _hold_out(draw, script, task)
    per_epoch = rows // batch_size
    if draw.axes["body"] == "lazy":
        script.build.append("with torch.no_grad():\n    compute_loss(model, *validation)")
    batch = ", ".join(task.batch)
    scene = Scene(
        draw,
        script,
        batch,
        draw.axes["body"],
        draw.axes["loss"],
        "torch_func" if functional else "",
    )

    scene.loader = loader

    if functional:
        # The step is written first: its definitions must come before the loop.
        draw.axes["optimizer"] = "functional_update"
        scene.optimizer = "torch_func"
        step = func_step_text(
            script, task, rate=0.05 * task.learning_rate, per_sample=how == "per_sample"
        )
        script.definitions.insert(len(script.definitions) - 1, compute_loss_text(task))
        training = training_text(
            draw,
            script,
            task,
            step=step,
            loader=loader,
            epochs=epochs,
            steps=epochs * per_epoch,
            module=module,
        )
        script.after.append("model.load_state_dict(weights, strict=False)")
        draw.axes["oddities"] = ""
        text = _ordered(script, training, scope, gradients=parameters, weights="model.state_dict()")
        return _finished(seed, draw, script, text)

    special = [
        each
        for each in SPECIAL
        if (each != "lbfgs" or (full_batch and draw.axes["body"] not in STATEFUL))
        and (each != "in_backward" or draw.axes["body"] not in {"checkpoint_reentrant"})
        and (each != "two_optimizers" or draw.axes["body"] not in {"factors"})
    ]
    if full_batch and "lbfgs" in special:
        special = ["lbfgs"] * 12
    stepping = write_optimizer(
        draw,
        script,
        parameters=parameters,
        scale=task.learning_rate,
        special=special,
        epochs=epochs,
        steps=epochs * per_epoch,
    )
    if stepping.scheduled_epoch:
        script.epoch_end.append(stepping.scheduled_epoch)
    scene.optimizer = stepping.kind
    if module:
        copyable = draw.axes["body"] not in {"scripted"}
        write_copy(draw, script, simple_call=task.simple_call, copyable=copyable)
        _write_evaluation(draw, script)
        scene = write_oddities(scene, draw.random.choice([0, 1, 1, 2, 2, 3]))
        draw, script = scene.draw, scene.script
    inline = (
        scope == "module"
        and stepping.kind != "lbfgs"
        and draw.chance(0.3)
        and not {"time_limit", "settrace"} & set(scene.chosen)
    )
    if draw.axes["body"] == "lazy" or (
        "evaluation" in draw.axes and draw.axes["evaluation"] != "none"
    ):
        inline = False
    fragile = stepping.kind == "in_backward" or "compile" in draw.axes.get("oddities", "")
    step = step_text(
        draw,
        script,
        task,
        stepping,
        model=scene.model,
        parameters=parameters,
        inline=inline,
        even=per_epoch % 2 == 0 and "bad_batch" not in scene.chosen,
        fragile=fragile,
    )
    if not inline:
        script.definitions.append(compute_loss_text(task))
    training = training_text(
        draw,
        script,
        task,
        step=step,
        loader=scene.loader,
        epochs=epochs,
        steps=epochs * per_epoch,
        module=module,
    )
    script.after = [each.replace("LOADER", loader) for each in script.after]
    weights = "model.state_dict()" if module else parameters
    return _finished(
        seed, draw, script, _ordered(script, training, scope, gradients=parameters, weights=weights)
    )


def _can_be_functional(draw: Draw, task: Task, scope: str) -> bool:
    if scope != "module" or draw.axes["task"] not in {
        "regression",
        "classification",
        "tags",
        "autoencoder",
    }:
        return False
    return task.deterministic and draw.axes["body"] not in {
        *STATEFUL,
        "weight_norm",
        "low_rank",
        "lazy",
    }


def _hold_out(draw: Draw, script: Script, task: Task) -> None:
    """Hold out some samples before the loader is built from the others."""
    if draw.axes["loader"] == "random_split":
        script.data.append("validation = dataset[spare.indices]")
        return
    # The loader's own lines come last in the data; the split comes before them.
    last = (
        script.data.pop()
        if draw.axes["loader"] not in {"indexing", "numpy_order", "generator", "python_shuffle"}
        else ""
    )
    held = ", ".join(f"{each}[-{HELD_OUT}:]" for each in task.columns)
    script.data.append(f"validation = ({held},)")
    script.data.append("\n".join(f"{each} = {each}[:-{HELD_OUT}]" for each in task.columns))
    if last:
        script.data.append(last)


def _write_evaluation(draw: Draw, script: Script) -> None:
    how = draw.axis("evaluation", ["none", "no_grad", "inference_mode"])
    if how == "none":
        return
    script.definitions.append(
        block(f"""
        @torch.{how}()
        def evaluate(model):
            model.eval()
            loss = compute_loss(model, *validation)
            model.train()
            return loss.item()
        """)
    )
    script.epoch_end.append('print(f"validation {evaluate(model):.6f}")')


def _ordered(script: Script, training: str, scope: str, *, gradients: str, weights: str) -> str:
    """Write the main part: build, train, and print the state."""
    parts = [*script.build, *script.optimizer, *script.before, training, *script.after]
    text = "\n".join([*parts, state_text(script, weights=weights, gradients=gradients)])
    if scope == "main":
        return f"def main():\n{indent(text)}\n\n\nmain()"
    if scope == "ensemble":
        start = 'torch.manual_seed(member)\ncounts["steps"] = 0'
        return f"for member in range(3):\n{indent(start)}\n{indent(text)}"
    return text


def _finished(seed: int, draw: Draw, script: Script, text: str) -> Program:
    ending = write_ending(draw, script)
    number = draw.number(0, 1, 42, 1234)
    imports = {*ALWAYS, *script.imports}
    plain = sorted(
        each
        for each in imports
        if each.startswith("import ") and "numpy" not in each and "torch" not in each
    )
    others = sorted(each for each in imports if each not in plain)
    chosen = ", ".join(f"{name} {value}" for name, value in draw.axes.items() if value)
    sections = [
        f'"""A random healthy program: {chosen}."""',
        "\n".join(plain),
        "\n".join(others),
        f"random.seed({number})\nnp.random.seed({number})\ntorch.manual_seed({number})",
        "counts = collections.Counter()",
        *script.setup,
        *(f"\n{each}\n" for each in script.definitions),
        f"\n{FINGERPRINT}\n",
        "\n".join(script.data),
        text,
        closing_text(),
        ending,
    ]
    finished = strip_roles(_spaced("\n\n".join(each for each in sections if each)))
    return Program(seed, finished.source, draw.axes, finished.roles)


def _spaced(text: str) -> str:
    """Put two empty lines around top-level functions and classes, and never more."""
    lines: list[str] = []
    for line in text.splitlines():
        starts = line.startswith(("def ", "class ", "@")) and not (
            lines and lines[-1].startswith("@")
        )
        if starts:
            while lines and not lines[-1]:
                lines.pop()
            lines += ["", ""]
        lines.append(line)
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)) + "\n"


def main() -> None:
    seed, *limits = sys.argv[1:]
    fixed = {name: {value} for name, _, value in (each.partition("=") for each in limits)}
    print(compose(int(seed), fixed).source, end="")


if __name__ == "__main__":
    main()
