"""Unusual actions of healthy programs; each counts or prints what an observer could change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

from draw import Draw
from script import Script, block


@dataclass
class Scene:
    """The facts about the program that an oddity needs."""

    draw: Draw
    script: Script
    batch: str
    body: str
    loss: str
    optimizer: str
    # The name that the forward pass calls; an oddity may put a wrapper there.
    model: str = "model"
    # The expression that the loop iterates over.
    loader: str = "loader"
    float64: bool = False
    chosen: tuple[str, ...] = ()


def autocast(scene: Scene) -> bool:
    if scene.float64 or scene.optimizer == "lbfgs" or scene.loss in {"bce", "ctc"}:
        return False
    if scene.body in {"scripted", "checkpoint_reentrant", "running_range", "own_function"}:
        return False
    scene.script.forward_contexts.append('torch.autocast("cpu", dtype=torch.bfloat16)')
    return True


def compile_eager(scene: Scene) -> bool:
    return _compile(scene, "eager")


def compile_aot(scene: Scene) -> bool:
    return _compile(scene, "aot_eager")


def _compile(scene: Scene, backend: str) -> bool:
    if scene.body in {
        "checkpoint",
        "checkpoint_reentrant",
        "scripted",
        "running_range",
        "own_function",
        "glu",
    }:
        return False
    if scene.optimizer == "lbfgs" or scene.model == "compiled":
        return False
    scene.script.build.append(f'compiled = torch.compile(model, backend="{backend}")')
    scene.model = "compiled"
    return True


def patched_relu(scene: Scene) -> bool:
    if scene.model == "compiled":
        return False
    scene.script.setup.append(
        block("""
        original_relu = F.relu


        def counting_relu(*arguments, **options):
            counts["relu"] += 1
            return original_relu(*arguments, **options)


        F.relu = counting_relu
        """)
    )
    return True


def patched_loss(scene: Scene) -> bool:
    scene.script.setup.append(
        block("""
        originals = {name: getattr(F, name) for name in ("mse_loss", "cross_entropy", "linear")}


        def counting(name):
            def call(*arguments, **options):
                counts[name] += 1
                return originals[name](*arguments, **options)

            return call


        for name in originals:
            setattr(F, name, counting(name))
        """)
    )
    return scene.model != "compiled" and scene.body != "scripted"


def mock_patch(scene: Scene) -> bool:
    if scene.model == "compiled":
        return False
    scene.script.imports.add("from unittest import mock")
    scene.script.training_contexts.append(
        'mock.patch.object(torch.Tensor, "backward", autospec=True, '
        "side_effect=torch.Tensor.backward) as spy"
    )
    scene.script.after.append('print("backward calls", spy.call_count)')
    return True


def timer(scene: Scene) -> bool:
    scene.script.imports |= {"import signal", "import time"}
    scene.script.setup.append(
        block("""
        ticks = []
        signal.signal(signal.SIGALRM, lambda number, frame: ticks.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        """)
    )
    scene.script.after.append(
        block("""
        while not ticks:
            time.sleep(0.001)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print("ticks came", set(ticks) == {signal.SIGALRM})
        """)
    )
    return True


def time_limit(scene: Scene) -> bool:
    if (
        scene.model == "compiled"
        or scene.body == "running_range"
        or {"timer", "mock_patch"} & set(scene.chosen)
    ):
        return False
    scene.script.imports |= {"import copy", "import signal"}
    scene.script.definitions.append(
        block(f"""
        class TimeUp(Exception):
            pass


        armed = False


        rings = 0


        def ring(number, frame):
            global rings
            if armed:
                rings += 1
                raise TimeUp


        def measure(model, {scene.batch}):
            \"\"\"Train a copy for 40 ms, to see that it can be interrupted anywhere.\"\"\"
            global armed, rings
            scratch = copy.deepcopy(model)
            trained = [each for each in scratch.parameters() if each.requires_grad]
            quick = torch.optim.SGD(trained, lr=0.01)
            previous = signal.signal(signal.SIGALRM, ring)
            kept, state = counts.copy(), torch.get_rng_state()
            armed, rings = True, 0
            signal.setitimer(signal.ITIMER_REAL, 0.04, 0.5)
            try:
                while True:
                    quick.zero_grad()
                    compute_loss(scratch, {scene.batch}).backward()
                    quick.step()
            except TimeUp:
                armed = False
                print("time is up after", rings, "rings; gradients are", torch.is_grad_enabled())
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
            counts.clear()
            counts.update(kept)
            torch.set_rng_state(state)
        """)
    )
    scene.script.step_start.append(f"if step == 2:\n    measure(model, {scene.batch})")
    return True


def forward_hooks(scene: Scene) -> bool:
    if scene.model == "compiled":
        return False
    scene.script.build.append(
        block("""
        for module in model.children():
            module.register_forward_hook(lambda *seen: counts.update(["forward_hook"]))
            module.register_forward_pre_hook(lambda *seen: counts.update(["forward_pre_hook"]))
        """)
    )
    return scene.body != "scripted"


def backward_hooks(scene: Scene) -> bool:
    if scene.model == "compiled" or scene.body in {"scripted", "checkpoint_reentrant", "factors"}:
        return False
    scene.script.build.append(
        block("""
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.register_full_backward_hook(lambda *seen: counts.update(["backward_hook"]))
        """)
    )
    return True


def tensor_hook(scene: Scene) -> bool:
    scene.script.build.append(
        block("""
        def note_size(gradient):
            counts["gradient_hook"] += 1
            sizes.append(gradient.norm().item())


        sizes = []
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_hook(note_size)
        """)
    )
    scene.script.after.append('print("gradient sizes", len(sizes), f"{sum(sizes):.6f}")')
    return True


def global_hook(scene: Scene) -> bool:
    if scene.model == "compiled":
        return False
    scene.script.imports.add("from torch.nn.modules.module import register_module_forward_hook")
    scene.script.before.append(
        block("""
        handle = register_module_forward_hook(
            lambda module, *seen: counts.update([type(module).__name__])
        )
        """)
    )
    scene.script.after.append("handle.remove()")
    return scene.body != "scripted"


def saved_tensors(scene: Scene) -> bool:
    scene.script.definitions.append(
        block("""
        def pack(tensor):
            counts["packed"] += 1
            return tensor


        def unpack(tensor):
            counts["unpacked"] += 1
            return tensor
        """)
    )
    scene.script.forward_contexts.append("torch.autograd.graph.saved_tensors_hooks(pack, unpack)")
    return scene.model != "compiled" and scene.body not in {"checkpoint", "checkpoint_reentrant"}


def save_on_cpu(scene: Scene) -> bool:
    scene.script.forward_contexts.append("torch.autograd.graph.save_on_cpu()")
    return scene.model != "compiled" and scene.body not in {"checkpoint", "checkpoint_reentrant"}


def dispatch_mode(scene: Scene) -> bool:
    if scene.model == "compiled":
        return False
    scene.script.imports.add("from torch.utils._python_dispatch import TorchDispatchMode")
    scene.script.imports.add("import contextlib")
    scene.script.definitions.append(
        block("""
        class CountOperations(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                counts["operations"] += 1
                counts[str(func)] += 1
                return func(*args, **(kwargs or {}))
        """)
    )
    scene.script.step_contexts.append(
        "CountOperations() if step == 3 else contextlib.nullcontext()"
    )
    return True


def function_mode(scene: Scene) -> bool:
    if scene.model == "compiled":
        return False
    scene.script.imports.add("from torch.overrides import TorchFunctionMode")
    scene.script.imports.add("import contextlib")
    scene.script.definitions.append(
        block("""
        class CountFunctions(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                counts["functions"] += 1
                return func(*args, **(kwargs or {}))
        """)
    )
    scene.script.step_contexts.append(
        "CountFunctions() if step % 4 == 1 else contextlib.nullcontext()"
    )
    return True


def flop_counter(scene: Scene) -> bool:
    if scene.model == "compiled" or scene.optimizer == "lbfgs":
        return False
    scene.script.imports |= {
        "import contextlib",
        "from torch.utils.flop_counter import FlopCounterMode",
    }
    scene.script.before.append("flops = FlopCounterMode(display=False)")
    scene.script.step_contexts.append("flops if step == 1 else contextlib.nullcontext()")
    scene.script.after.append('print("floating point operations", flops.get_total_flops())')
    return scene.body not in {"spectral_norm", "weight_norm"}


def profiler(scene: Scene) -> bool:
    if scene.model == "compiled":
        return False
    scene.script.imports |= {
        "import contextlib",
        "from torch.profiler import ProfilerActivity, profile",
    }
    scene.script.before.append("profiler = profile(activities=[ProfilerActivity.CPU])")
    scene.script.step_contexts.append("profiler if step == 1 else contextlib.nullcontext()")
    scene.script.after.append(
        block("""
        events = collections.Counter(event.name for event in profiler.events())
        print("profiled", sum(count for name, count in events.items() if name.startswith("aten::")))
        """)
    )
    return True


def warnings_caught(scene: Scene) -> bool:
    scene.script.imports |= {"import warnings", "import os"}
    scene.script.training_contexts.append("warnings.catch_warnings(record=True) as caught")
    scene.script.before.append('warnings.simplefilter("always")')
    scene.script.step_start.append('if step == 1:\n    warnings.warn("a warning of the program")')
    scene.script.after.append(
        block("""
        for each in caught:
            file, message = os.path.basename(each.filename), str(each.message)
            print("warning", each.category.__name__, file, message[:60])
        """)
    )
    return True


def log_thread(scene: Scene) -> bool:
    scene.script.imports |= {"import queue", "import threading"}
    scene.script.before.append(
        block("""
        def write_log():
            while (item := messages.get()) is not None:
                logged.append(item)


        messages, logged = queue.Queue(), []
        writer = threading.Thread(target=write_log, name="writer")
        writer.start()
        """)
    )
    scene.script.step_end.append('messages.put(counts["steps"])')
    scene.script.after.append(
        block("""
        print("threads", sorted(each.name for each in threading.enumerate() if each.name in
              ("writer", "MainThread")), threading.active_count())
        messages.put(None)
        writer.join()
        print("logged", len(logged), logged[-1])
        """)
    )
    # The feeder threads of workers and the pin thread are threads too.
    return scene.draw.axes.get("loader") != "workers"


def bad_batch(scene: Scene) -> bool:
    """Skip batches that fail an inspection."""
    if scene.draw.axes.get("scheduler") == "one_cycle":
        return False
    scene.script.definitions.append(
        block("""
        class BadBatch(ValueError):
            pass


        def inspect_batch(index, batch):
            if index % 4 == 3:
                raise BadBatch(f"batch {index} with {len(batch[0])} samples is marked as bad")


        def good_batches(batches):
            for index, batch in enumerate(batches):
                try:
                    inspect_batch(index, batch)
                except BadBatch as error:
                    counts["bad_batches"] += 1
                    print("skipped:", error)
                    continue
                yield batch
        """)
    )
    scene.loader = f"good_batches({scene.loader})"
    return True


def refused_call(scene: Scene) -> bool:
    """Catch a call that torch rejects, and compute the result in another way."""
    scene.script.imports.add("import traceback")
    scene.script.definitions.append(
        block("""
        def try_fast_path(step):
            try:
                return torch.ones(2, 3) @ torch.ones(2, 3)
            except RuntimeError as error:
                counts["refused"] += 1
                if step == 0:
                    print("no fast path:", error)
                    print("frames", len(traceback.extract_tb(error.__traceback__)))
                return torch.ones(2, 3) @ torch.ones(2, 3).T
        """)
    )
    scene.script.step_start.append("if step % 3 == 0:\n    try_fast_path(step)")
    return True


def finaliser(scene: Scene) -> bool:
    scene.script.imports |= {"import gc", "import weakref"}
    scene.script.definitions.append(
        block("""
        class Buffer:
            def __init__(self):
                self.memory = torch.zeros(1000)


        def allocate():
            buffer = Buffer()
            weakref.finalize(buffer, counts.update, ["finalised"])
            raise MemoryError(f"no room for {buffer.memory.numel()} values")


        def retry():
            try:
                allocate()
            except MemoryError:
                pass
            print("finalised at once", counts["finalised"], "garbage", gc.isenabled())
        """)
    )
    scene.script.step_start.append("if step == 2:\n    retry()")
    return True


def stderr_caught(scene: Scene) -> bool:
    scene.script.imports |= {"import contextlib", "import io"}
    scene.script.before.append("errors = io.StringIO()")
    scene.script.training_contexts.append("contextlib.redirect_stderr(errors)")
    scene.script.after.append('print("written to stderr", repr(errors.getvalue()))')
    return True


def signals_listed(scene: Scene) -> bool:
    if "child_signals" in scene.chosen:
        return False
    scene.script.imports |= {"import os", "import signal"}
    scene.script.after.append(
        block("""
        print("handlers", signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGCHLD))
        print("modes", torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        """)
    )
    return True


def child_signals(scene: Scene) -> bool:
    if scene.draw.axes.get("loader") == "workers" or scene.model == "compiled":
        return False
    scene.script.imports |= {"import os", "import signal"}
    scene.script.setup.append(
        block("""
        signal.signal(signal.SIGCHLD, lambda number, frame: counts.update(["child_signal"]))
        os.register_at_fork(before=lambda: counts.update(["fork"]))
        """)
    )
    return True


def tensor_subclass(scene: Scene) -> bool:
    if scene.model == "compiled" or scene.body in {"scripted", "running_range"}:
        return False
    scene.script.definitions.append(
        block("""
        class Tracked(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                counts["tracked"] += 1
                return super().__torch_function__(func, types, args, kwargs)


        def spread(values):
            return values.as_subclass(Tracked).float().std().item()
        """)
    )
    name = scene.batch.split(",")[0]
    scene.script.step_start.append(
        "if step == 1:\n"
        f"    print(f\"spread {{spread({name}):.6f}} after {{counts['tracked']}} calls\")"
    )
    return True


def float64(scene: Scene) -> bool:
    scene.script.setup.append("torch.set_default_dtype(torch.float64)")
    scene.float64 = True
    return not scene.script.forward_contexts


def deterministic(scene: Scene) -> bool:
    scene.script.setup.append("torch.use_deterministic_algorithms(True)")
    return True


def trace(scene: Scene) -> bool:
    """Count the nodes of a traced graph before training."""
    if scene.model == "compiled" or scene.draw.axes.get("task") in {"policy", "vae", "contrastive"}:
        return False
    if scene.body not in {
        "mlp",
        "layernorm",
        "residual",
        "parameters",
        "glu",
        "conv_gn",
        "experts",
        "module_dict",
    }:
        return False
    if scene.draw.axes.get("task") not in {
        "regression",
        "classification",
        "tags",
        "images",
        "segmentation",
    }:
        return False
    how = scene.draw.axis("tracer", ["jit", "make_fx", "symbolic", "export"])
    first = scene.draw.axes["task"] in {"images", "segmentation"}
    example = "images[:2]" if first else "features[:2]"
    if how == "jit":
        text = block(f"""
            traced = torch.jit.trace(model, {example})
            print("traced nodes", len(list(traced.inlined_graph.nodes())))
            """)
    elif how == "make_fx":
        scene.script.imports.add("from torch.fx.experimental.proxy_tensor import make_fx")
        text = f'print("traced nodes", len(make_fx(model)({example}).graph.nodes))'
    elif how == "export":
        text = f'print("traced nodes", len(torch.export.export(model, ({example},)).graph.nodes))'
        scene.script.imports.add("import torch.export")
    else:
        text = 'print("traced nodes", len(torch.fx.symbolic_trace(model.body).graph.nodes))'
        scene.script.imports.add("import torch.fx")
        if scene.body == "glu":
            return False
    place = scene.draw.random.choice([scene.script.before, scene.script.after])
    place.append(text)
    return True


def anomaly(scene: Scene) -> bool:
    scene.script.step_contexts.append("torch.autograd.set_detect_anomaly(True, check_nan=True)")
    return scene.model != "compiled"


def checkpoint_file(scene: Scene) -> bool:
    """Save in the middle, continue, and load the saved state."""
    if scene.optimizer in {"own_update", "in_backward", "torch_func"}:
        return False
    scene.script.imports |= {"import os", "import tempfile"}
    scene.script.epoch_end.append(
        block("""
        if epoch == 1:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "checkpoint.pt")
                state = {"model": model.state_dict(), "epoch": epoch}
                state["optimizer"] = optimizer.state_dict()
                torch.save(state, path)
                loaded = torch.load(path)
                model.load_state_dict(loaded["model"])
                optimizer.load_state_dict(loaded["optimizer"])
                print("resumed from epoch", loaded["epoch"])
        """)
    )
    return True


def early_stop(scene: Scene) -> bool:
    """Stop when the loss is low enough."""
    if scene.draw.axes.get("loop") == "while":
        return False
    scene.script.epoch_end.append('if total < 0.02:\n    print("good enough")\n    break')
    return True


def default_device(scene: Scene) -> bool:
    scene.script.setup.append('torch.set_default_device("cpu")')
    return scene.model != "compiled" and scene.draw.axes.get("loader") not in {"workers"}


def settrace(scene: Scene) -> bool:
    """Count calls of program functions with the program's own tool."""
    if scene.model == "compiled":
        return False
    scene.script.imports.add("import sys")
    scene.script.before.append(
        block("""
        def count_calls(frame, event, argument):
            if event == "call" and frame.f_code.co_name in ("compute_loss", "forward", "evaluate"):
                if frame.f_globals.get("__name__") == "__main__":
                    counts["profiled_" + frame.f_code.co_name] += 1


        sys.setprofile(count_calls)
        """)
    )
    scene.script.after.insert(0, "sys.setprofile(None)")
    return True


def live_parameters(scene: Scene) -> bool:
    scene.script.imports.add("import gc")
    scene.script.before.append("gc.disable()")
    scene.script.epoch_end.append(
        'if epoch == 1:\n    gc.collect()\n    print("parameters", count_parameters())'
    )
    scene.script.definitions.append(
        block("""
        def count_parameters():
            return sum(isinstance(each, nn.Parameter) for each in gc.get_objects())
        """)
    )
    return True


# In the order of insertion: later oddities depend on earlier ones.
ODDITIES: list[Callable[[Scene], bool]] = [
    float64,
    autocast,
    compile_eager,
    compile_aot,
    patched_relu,
    patched_loss,
    mock_patch,
    timer,
    time_limit,
    forward_hooks,
    backward_hooks,
    tensor_hook,
    global_hook,
    saved_tensors,
    save_on_cpu,
    dispatch_mode,
    function_mode,
    flop_counter,
    profiler,
    warnings_caught,
    log_thread,
    bad_batch,
    refused_call,
    finaliser,
    stderr_caught,
    child_signals,
    signals_listed,
    tensor_subclass,
    deterministic,
    trace,
    anomaly,
    checkpoint_file,
    early_stop,
    default_device,
    settrace,
    live_parameters,
]


def write_oddities(scene: Scene, number: int) -> Scene:
    """Insert some oddities, except those that are incompatible with the program."""
    wanted = [
        each
        for each in ODDITIES
        if each.__name__ in scene.draw.fixed.get("oddities", {each.__name__})
    ]
    picked = scene.draw.random.sample(wanted, min(number, len(wanted)))
    for each in sorted(picked, key=ODDITIES.index):
        trial = copy.deepcopy(scene)
        if each(trial):
            trial.chosen = (*trial.chosen, each.__name__)
            scene = trial
    scene.draw.axes["oddities"] = "+".join(scene.chosen)
    return scene
