"""Training loops: the lines of one step, and the code around them."""

from __future__ import annotations

from draw import Draw
from optimizers import Stepping
from script import Script, block, indent, within
from tasks import Task

FRAMES = ["epochs", "while", "function", "trainer", "generator"]
GRADIENTS = ["plain", "plain", "clip_norm", "clip_value", "accumulate", "scaler", "autograd_grad"]


def compute_loss_text(task: Task) -> str:
    return f"def compute_loss(model, {', '.join(task.batch)}):\n{indent(task.loss)}"


def forward_text(script: Script, task: Task, *, model: str, inline: bool, divided: int = 1) -> str:
    """The lines that compute `loss`, inside the program's wrappers of the forward pass."""
    share = f" / {divided}" if divided > 1 else ""
    if not inline:
        return within(
            script.forward_contexts, f"loss = compute_loss({model}, {', '.join(task.batch)}){share}"
        )
    *lines, last = task.loss.replace("model(", f"{model}(").splitlines()
    value = last.removeprefix("return ")
    if divided > 1:
        value, _, role = value.partition("  #@")
        value = f"({value}){share}" + (f"  #@{role}" if role else "")
    return within(script.forward_contexts, "\n".join([*lines, f"loss = {value}"]))


def step_text(
    draw: Draw,
    script: Script,
    task: Task,
    stepping: Stepping,
    *,
    model: str,
    parameters: str,
    inline: bool,
    even: bool,
    fragile: bool,
) -> str:
    """One step. Fragile steps do not process their gradients in any other way."""
    if stepping.kind == "lbfgs":
        text = _with_closure(script, task, stepping, model=model)
    elif stepping.kind in {"own_update", "in_backward"} or fragile:
        parts = [
            stepping.zero and f"{stepping.zero}  #@zero_grad",
            forward_text(script, task, model=model, inline=inline),
        ]
        parts += ["loss.backward()  #@backward", stepping.update, stepping.scheduled_step]
        text = "\n".join(each for each in parts if each)
    else:
        options = [
            each
            for each in GRADIENTS
            if each != "accumulate" or (even and not stepping.scheduled_step)
        ]
        if draw.axes["body"] == "checkpoint_reentrant":
            options.remove("autograd_grad")
        kind = draw.axis("gradients", options)
        text = _with_optimizer(
            script, task, stepping, kind, model=model, parameters=parameters, inline=inline
        )
    text = within(script.step_contexts, text)
    lines = [*script.step_start, text, *script.step_end, 'counts["steps"] += 1']
    used = "\n".join(lines)
    return f'step = counts["steps"]\n{used}' if "step ==" in used or "step %" in used else used


def _with_closure(script: Script, task: Task, stepping: Stepping, *, model: str) -> str:
    inner = forward_text(script, task, model=model, inline=False)
    return "\n".join(
        [
            "def closure():",
            '    counts["closure"] += 1',
            indent(f"{stepping.zero}  #@zero_grad"),
            indent(inner),
            "    loss.backward()  #@backward",
            "    return loss",
            "",
            f"loss = {stepping.update}  #@step",
        ]
    )


def _with_optimizer(
    script: Script,
    task: Task,
    stepping: Stepping,
    kind: str,
    *,
    model: str,
    parameters: str,
    inline: bool,
) -> str:
    forward = forward_text(
        script, task, model=model, inline=inline, divided=2 if kind == "accumulate" else 1
    )
    zero = "\n".join(f"{each}  #@zero_grad" for each in stepping.zero.splitlines())
    update = "\n".join(f"{each}  #@step" for each in stepping.update.splitlines())
    tail = f"\n{stepping.scheduled_step}" if stepping.scheduled_step else ""
    match kind:
        case "clip_norm":
            clip = f"torch.nn.utils.clip_grad_norm_({parameters}, 1.0)"
            return f"{zero}\n{forward}\nloss.backward()  #@backward\n{clip}\n{update}{tail}"
        case "clip_value":
            clip = f"torch.nn.utils.clip_grad_value_({parameters}, 0.5)"
            return f"{zero}\n{forward}\nloss.backward()  #@backward\n{clip}\n{update}{tail}"
        case "accumulate":
            inner = indent(f"{update}\n{zero}")
            return f'{forward}\nloss.backward()  #@backward\nif counts["steps"] % 2 == 1:\n{inner}'
        case "scaler":
            script.optimizer.append('scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)')
            script.digested.append("scaler.state_dict()")
            update = update.replace("optimizer.step()", "scaler.step(optimizer)")
            update = update.replace(
                "vector_scaler.step(optimizer)", "scaler.step(vector_optimizer)"
            )
            return (
                f"{zero}\n{forward}\nscaler.scale(loss).backward()  #@backward\n{update}\n"
                f"scaler.update(){tail}"
            )
        case "autograd_grad":
            assign = block(f"""
                trained = [each for each in {parameters} if each.requires_grad]
                for each, gradient in zip(trained, torch.autograd.grad(loss, trained)):
                    each.grad = gradient
                """)
            return f"{forward}\n{assign}\n{update}{tail}"
    return f"{zero}\n{forward}\nloss.backward()  #@backward\n{update}{tail}"


def func_step_text(script: Script, task: Task, *, rate: float, per_sample: bool) -> str:
    """A step with torch.func, in which the program has no autograd graph."""
    script.imports.add("from torch.func import functional_call, grad, grad_and_value, vmap")
    names = ", ".join(task.batch)
    script.definitions.append(
        block(f"""
        def objective(weights, {names}):
            def call(*inputs):
                return functional_call(model, weights, inputs)

            return compute_loss(call, {names})
        """)
    )
    script.build.append(
        "weights = {name: each.detach().clone() for name, each in model.named_parameters()}"
    )
    script.digested.append("weights")
    if per_sample:
        singles = ", ".join(f"{each}.unsqueeze(1)" for each in task.batch)
        zeros = ", ".join(["None"] + ["0"] * len(task.batch))
        compute = block(f"""
            with torch.no_grad():
                loss = objective(weights, {names})
            gradients = vmap(grad(objective), in_dims=({zeros}))(weights, {singles})
            gradients = {{name: each.clamp(-1, 1).mean(dim=0) for name, each in gradients.items()}}
            """)
    else:
        compute = f"gradients, loss = grad_and_value(objective)(weights, {names})"
    update = block(f"""
        for name, gradient in gradients.items():
            weights[name] = weights[name] - {rate:g} * gradient
        """)
    return "\n".join([*script.step_start, compute, update, 'counts["steps"] += 1'])


def training_text(
    draw: Draw,
    script: Script,
    task: Task,
    *,
    step: str,
    loader: str,
    epochs: int,
    steps: int,
    module: bool,
) -> str:
    names = ", ".join(task.batch) if len(task.batch) > 1 else f"({task.batch[0]},)"
    frame = draw.axis("loop", FRAMES)
    mode = "model.train()  #@train_mode\n" if module else ""
    closing = "\n".join(['print(f"epoch {epoch}: loss {total:.6f}")', *script.epoch_end])
    record = "losses.append(loss.item())  #@record"
    body = indent("\n".join([step, record]))
    passing = f"for {names} in {loader}:\n{body}"
    average = "total = sum(losses) / len(losses)"
    if frame == "epochs":
        inner = f"{mode}losses = []\n{passing}\n{average}\n{closing}"
        return within(script.training_contexts, f"for epoch in range({epochs}):\n{indent(inner)}")
    if frame == "while":
        inner = f"{mode}losses = []\n{passing}\n{average}\n{closing}\nepoch += 1"
        text = f'epoch = 0\nwhile counts["steps"] < {steps}:\n{indent(inner)}'
        return within(script.training_contexts, text)
    if frame == "function":
        inner = f"{mode}losses = []\n{passing}\nreturn sum(losses) / len(losses)"
        definition = f"def train_one_epoch():\n{indent(inner)}"
        use = f"total = train_one_epoch()\n{closing}"
    elif frame == "generator":
        body = indent("\n".join([step, "yield loss.item()"]))
        inner = f"{mode}for {names} in {loader}:\n{body}"
        definition = f"def training_losses():\n{indent(inner)}"
        use = f"losses = list(training_losses())\n{average}\n{closing}"
    else:
        arguments = ", ".join(task.batch)
        start = "        self.model.train()  #@train_mode\n" if module else ""
        definition = (
            "class Trainer:\n"
            "    def __init__(self, model):\n"
            "        self.model = model\n"
            "        self.history = []\n\n"
            f"    def training_step(self, model, {arguments}):\n{indent(step, 2)}\n"
            "        return loss.item()\n\n"
            f"    def run_epoch(self):\n{start}"
            "        losses = []\n"
            f"        for {names} in {loader}:\n"
            f"            losses.append(self.training_step(self.model, {arguments}))\n"
            "        self.history.append(sum(losses) / len(losses))\n"
            "        return self.history[-1]\n\n\n"
            "trainer = Trainer(model)"
        )
        use = f"total = trainer.run_epoch()\n{closing}"
    loop = within(script.training_contexts, f"for epoch in range({epochs}):\n{indent(use)}")
    return f"{definition}\n\n\n{loop}"
