"""Optimizers, schedulers and copies of the weights, and the lines of one training step."""

from __future__ import annotations

from dataclasses import dataclass

from draw import Draw
from script import Script, block

# The class, a learning rate that suits these small models, and further arguments.
STANDARD = {
    "sgd": ("SGD", 0.05, ""),
    "momentum": ("SGD", 0.02, ", momentum=0.9"),
    "nesterov": ("SGD", 0.02, ", momentum=0.9, nesterov=True, weight_decay=1e-4"),
    "adam": ("Adam", 0.005, ""),
    "adam_fused": ("Adam", 0.005, ", fused=True"),
    "adamw_foreach": ("AdamW", 0.005, ", foreach=True"),
    "adamw_single": ("AdamW", 0.005, ", foreach=False, weight_decay=1e-2"),
    "amsgrad": ("Adam", 0.005, ", amsgrad=True"),
    "rmsprop": ("RMSprop", 0.002, ", momentum=0.5"),
    "adagrad": ("Adagrad", 0.03, ""),
    "nadam": ("NAdam", 0.004, ""),
    "radam": ("RAdam", 0.01, ""),
}
SPECIAL = ["lbfgs", "groups", "own_update", "in_backward", "own_class", "two_optimizers"]
SCHEDULERS = [
    "none",
    "none",
    "step",
    "cosine",
    "one_cycle",
    "warmup",
    "plateau",
    "exponential",
    "sequential",
    "own",
]


@dataclass(frozen=True)
class Stepping:
    """The code that the loop writes around the loss."""

    kind: str
    zero: str
    update: str
    scheduled_step: str = ""
    scheduled_epoch: str = ""


def write_optimizer(
    draw: Draw,
    script: Script,
    *,
    parameters: str,
    scale: float,
    special: list[str],
    epochs: int,
    steps: int,
) -> Stepping:
    kind = draw.axis("optimizer", [*STANDARD, *special])
    add = script.optimizer.append
    if kind in STANDARD:
        name, rate, more = STANDARD[kind]
        add(f"optimizer = torch.optim.{name}({parameters}, lr={rate * scale:g}{more})  #@optimizer")
        zero = draw.random.choice(
            ["optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)", "model.zero_grad()"]
        )
        if parameters == "weights" or "requires_grad" in parameters:
            zero = "optimizer.zero_grad()"
        return _scheduled(draw, script, kind, zero, epochs=epochs, steps=steps, rate=rate * scale)
    match kind:
        case "lbfgs":
            add(
                f"optimizer = torch.optim.LBFGS({parameters}, lr=0.5, max_iter=4, "
                'line_search_fn="strong_wolfe")  #@optimizer'
            )
            return Stepping(kind, "optimizer.zero_grad()", "optimizer.step(closure)")
        case "groups":
            add(
                block(f"""
                matrices = [each for each in {parameters} if each.ndim > 1]
                vectors = [each for each in {parameters} if each.ndim <= 1]
                optimizer = torch.optim.AdamW(
                    [
                        {{"params": matrices, "weight_decay": 0.01}},
                        {{"params": vectors, "weight_decay": 0.0, "lr": {0.003 * scale:g}}},
                    ],
                    lr={0.005 * scale:g},  #@optimizer
                )
                """)
            )
            return _scheduled(
                draw,
                script,
                kind,
                "optimizer.zero_grad()",
                epochs=epochs,
                steps=steps,
                rate=0.005 * scale,
            )
        case "own_update":
            add(f"velocity = [torch.zeros_like(each) for each in {parameters}]")
            script.digested.append("velocity")
            update = block(f"""
                with torch.no_grad():
                    for each, speed in zip({parameters}, velocity):
                        speed.mul_(0.8).add_(each.grad)
                        each.sub_({0.02 * scale:g} * speed)
                        each.grad = None
                """)
            return Stepping(kind, "", update)
        case "in_backward":
            add(
                block(f"""
                optimizers = {{
                    each: torch.optim.Adam([each], lr={0.005 * scale:g}, foreach=False)  #@optimizer
                    for each in {parameters}
                }}


                def update_now(parameter):
                    counts["updates"] += 1
                    optimizers[parameter].step()
                    optimizers[parameter].zero_grad()


                for each in {parameters}:
                    each.register_post_accumulate_grad_hook(update_now)
                """)
            )
            script.digested.append("[each.state_dict() for each in optimizers.values()]")
            return Stepping(kind, "", "")
        case "own_class":
            script.definitions.append(
                block("""
                class Lion(torch.optim.Optimizer):
                    def __init__(self, parameters, lr):
                        super().__init__(parameters, {"lr": lr})

                    @torch.no_grad()
                    def step(self, closure=None):
                        counts["lion_steps"] += 1
                        for group in self.param_groups:
                            for weight in group["params"]:
                                if weight.grad is None:
                                    continue
                                state = self.state[weight]
                                if not state:
                                    state["average"] = torch.zeros_like(weight)
                                direction = state["average"].lerp(weight.grad, 0.1).sign_()
                                weight.add_(direction, alpha=-group["lr"])
                                state["average"].lerp_(weight.grad, 0.01)
                """)
            )
            add(f"optimizer = Lion({parameters}, lr={0.001 * scale:g})  #@optimizer")
            return _scheduled(
                draw,
                script,
                kind,
                "optimizer.zero_grad()",
                epochs=epochs,
                steps=steps,
                rate=0.001 * scale,
            )
    # Two optimizers share one loss: one for matrices, one for the rest.
    add(
        block(f"""
        matrices = [each for each in {parameters} if each.ndim > 1]
        vectors = [each for each in {parameters} if each.ndim <= 1]
        optimizer = torch.optim.SGD(matrices, lr={0.03 * scale:g}, momentum=0.8)  #@optimizer
        vector_optimizer = torch.optim.Adam(vectors, lr={0.003 * scale:g})
        """)
    )
    script.digested.append("vector_optimizer.state_dict()")
    return Stepping(
        kind,
        "optimizer.zero_grad()\nvector_optimizer.zero_grad()",
        "optimizer.step()\nvector_optimizer.step()",
    )


def _scheduled(
    draw: Draw, script: Script, kind: str, zero: str, *, epochs: int, steps: int, rate: float
) -> Stepping:
    update = "optimizer.step()"
    name = draw.axis("scheduler", SCHEDULERS)
    schedulers = "torch.optim.lr_scheduler"
    per_step = per_epoch = ""
    add = script.optimizer.append
    match name:
        case "step":
            add(f"scheduler = {schedulers}.StepLR(optimizer, step_size=2, gamma=0.5)")
            per_epoch = "scheduler.step()"
        case "cosine":
            add(f"scheduler = {schedulers}.CosineAnnealingLR(optimizer, T_max={epochs})")
            per_epoch = "scheduler.step()"
        case "one_cycle":
            if kind in {"adagrad", "own_class"}:
                add(
                    f"scheduler = {schedulers}.OneCycleLR(\n"
                    f"    optimizer, max_lr={2 * rate:g}, total_steps={steps}, "
                    "cycle_momentum=False\n)"
                )
            else:
                cycle = ", cycle_momentum=False" if kind in {"sgd", "rmsprop"} else ""
                add(
                    f"scheduler = {schedulers}.OneCycleLR(optimizer, max_lr={2 * rate:g}, "
                    f"total_steps={steps}{cycle})"
                )
            per_step = "scheduler.step()"
        case "warmup":
            add(
                f"scheduler = {schedulers}.LambdaLR(optimizer, lambda done: min(1.0, (done "
                "+ 1) / 5))"
            )
            per_step = "scheduler.step()"
        case "plateau":
            add(f"scheduler = {schedulers}.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)")
            per_epoch = "scheduler.step(total)"
        case "exponential":
            add(f"scheduler = {schedulers}.ExponentialLR(optimizer, gamma=0.9)")
            per_epoch = "scheduler.step()"
        case "sequential":
            add(
                block(f"""
                warm = {schedulers}.LinearLR(optimizer, start_factor=0.3, total_iters=4)
                cool = {schedulers}.CosineAnnealingLR(optimizer, T_max={max(steps - 4, 2)})
                scheduler = {schedulers}.SequentialLR(optimizer, [warm, cool], milestones=[4])
                """)
            )
            per_step = "scheduler.step()"
        case "own":
            per_epoch = 'for group in optimizer.param_groups:\n    group["lr"] *= 0.9'
    if name not in {"none", "own"}:
        script.digested.append("[group['lr'] for group in optimizer.param_groups]")
    script.digested.append("optimizer.state_dict()")
    return Stepping(kind, zero, update, per_step, per_epoch)


def write_copy(draw: Draw, script: Script, *, simple_call: bool, copyable: bool) -> None:
    """Keep a second set of weights: an exponential average, a mean (SWA), or the best so far."""
    options = ["none", "none"]
    if copyable:
        options += ["ema", "best", "best_state"]
        options += ["swa"] if simple_call else []
    match draw.axis("copy", options):
        case "ema":
            script.imports.add("import copy")
            script.optimizer.append("average = copy.deepcopy(model).requires_grad_(False)")
            script.step_end.append(
                block("""
                with torch.no_grad():
                    for kept, current in zip(average.parameters(), model.parameters()):
                        kept.lerp_(current, 0.1)
                """)
            )
            script.digested.append("average.state_dict()")
        case "swa":
            script.imports.add("from torch.optim.swa_utils import AveragedModel, update_bn")
            script.optimizer.append("average = AveragedModel(model)")
            script.epoch_end.append("average.update_parameters(model)")
            script.after.append("update_bn(LOADER, average)")
            script.digested.append("average.state_dict()")
        case "best":
            script.imports.add("import copy")
            script.optimizer.append('best, best_model = float("inf"), None')
            script.epoch_end.append(
                block("""
                if total < best:
                    best, best_model = total, copy.deepcopy(model)
                """)
            )
            script.digested.append("best_model.state_dict()")
        case "best_state":
            script.imports.add("import copy")
            script.optimizer.append('best, best_state = float("inf"), None')
            script.epoch_end.append(
                block("""
                if total < best:
                    best, best_state = total, copy.deepcopy(model.state_dict())
                """)
            )
            script.after.append("model.load_state_dict(best_state)")
            script.digested.append("best_state")
