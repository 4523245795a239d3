"""PyTorch's private names, each with a fallback for a version that lacks it.

This is the only file of Whence that uses them. A missing name disables the capability that depends
on it and not the tool: the fallback answers "unknown", and the report says what was not watched
(`missing_capabilities`). Names without a capability have an equivalent fallback.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn

_missing: dict[str, str] = {}


def missing_capabilities() -> list[str]:
    """Return what this PyTorch does not let Whence watch, with the private name that it lacks."""
    version = str(torch.__version__).partition("+")[0]
    return [f"{what}: torch {version} has no {name}" for what, name in _missing.items()]


def _find(path: str, fallback: Any, capability: str = "") -> Any:
    """Return the object at a dotted path, or the fallback; note a capability that depends on it."""
    try:
        return _resolve(path)
    except Exception:
        # An import that fails with another exception than ImportError counts as missing, too.
        if capability:
            _missing.setdefault(capability, path)
        return fallback


def _resolve(path: str) -> Any:
    owner, _, name = path.rpartition(".")
    if not owner:
        return importlib.import_module(path)
    found = _resolve(owner)
    if isinstance(found, ModuleType) and name not in vars(found):
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError:
            pass
    return getattr(found, name)


def _file_of(path: str, capability: str) -> str:
    found = _find(path, None, capability)
    return getattr(found, "__file__", None) or ""


class Absent:
    """A class without instances."""


def _refuse(*_: Any) -> Any:
    raise NotImplementedError("this torch lacks it")


# function and dispatch modes

CALLS = "torch calls"
MODES = "programs with their own dispatch modes"

DeviceContext: Any = _find("torch.utils._device.DeviceContext", Absent)
function_depth: Callable[[], int] = _find("torch._C._len_torch_function_stack", lambda: 0, CALLS)
"""The number of active function modes in this thread."""
_function_mode_at: Callable[[int], Any] = _find("torch._C._get_function_stack_at", _refuse, CALLS)
push_function_mode: Callable[[Any], None] = _find("torch.overrides._push_mode", _refuse, CALLS)
pop_function_mode: Callable[[], Any] = _find("torch.overrides._pop_mode", _refuse, CALLS)
dispatch_depth: Callable[[], int] = _find("torch._C._len_torch_dispatch_stack", lambda: 0, MODES)
"""The number of active dispatch modes in this thread."""
_dispatch_modes: Callable[[], list[Any]] = _find(
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack", None, MODES
)


def function_modes() -> list[Any] | None:
    """Return the active function modes of this thread, outermost first; None if unknown."""
    if CALLS in _missing:
        return None
    return [_function_mode_at(level) for level in range(function_depth())]


def dispatch_modes() -> list[Any] | None:
    """Return the active dispatch modes of this thread, outermost first; None if unknown."""
    return list(_dispatch_modes()) if _dispatch_modes is not None else None


def take_off_function_mode(mode: Any) -> bool:
    """Remove a mode from this thread's stack, even from below others; False if it is not on it."""
    modes = function_modes()
    if modes is None or not any(each is mode for each in modes):
        return False
    above: list[Any] = []
    while (top := pop_function_mode()) is not mode:
        above.append(top)
    for each in reversed(above):
        push_function_mode(each)
    return True


# autograd

set_grad_enabled: Callable[[bool], Any] = _find(
    "torch._C._set_grad_enabled", torch.set_grad_enabled
)
are_transforms_active: Callable[[], bool] = _find(
    "torch._C._are_functorch_transforms_active", lambda: False, "torch.func transforms"
)
is_transformed: Callable[[Any], bool] = _find(
    "torch._C._functorch.is_functorch_wrapped_tensor", lambda _: False, "torch.func transforms"
)
"""Whether a tensor belongs to a `torch.func` transform, and has no values of its own."""
graph_task: Callable[[], int] = _find(
    "torch._C._current_graph_task_id", lambda: -1, "weight updates during backward"
)
"""The number of the backward pass that runs in this thread, -1 if none does."""
next_node_number: Callable[[], int] = _find(
    "torch.autograd._get_sequence_nr", lambda: 0, "autograd's graph"
)
"""Autograd's number for the node that it will make next."""
SAVED_TENSORS_SHOW_DATA = hasattr(_find("torch._C._autograd.SavedTensor", None), "data")
"""From torch 2.7 on, a node exposes its saved tensors' memory, even after an in-place change."""
_engine = _find("torch.autograd.Variable._execution_engine", None)
_top_hooks: Callable[[bool], Any] | None = _find(
    "torch._C._autograd._top_saved_tensors_default_hooks", None
)
is_profiling: Callable[[], bool] = _find("torch._C._autograd._profiler_enabled", lambda: False)
"""Whether a profiler is on. Unknown counts as no: then the profiler counts a few more calls."""
_is_tracing: Callable[[], bool] = _find("torch.jit.is_tracing", lambda: False)
tracing_state: Callable[[], Any] = _find(
    "torch._C._get_tracing_state", lambda: _is_tracing() or None
)
"""What `torch.jit.trace` has traced so far; None while it does not run."""


def input_metadata(node: Any) -> Sequence[Any]:
    """Return shapes, types and devices of the gradients that a node receives.

    Empty before torch 2.5, which does not expose them.
    """
    return getattr(node, "_input_metadata", ())


def run_backward(loss: torch.Tensor) -> None:
    """Do what `loss.backward()` does, without its Python wrapper, which modes see first."""
    if _engine is None:
        torch.autograd.backward(loss, torch.ones_like(loss), retain_graph=True)
        return
    _engine.run_backward(
        (loss,),
        (torch.ones_like(loss),),
        True,
        False,
        (),
        allow_unreachable=True,
        accumulate_grad=True,
    )


def may_have_saved_tensor_hooks() -> bool:
    """Return whether saved-tensor hooks are active; True before torch 2.8, where it is unknown."""
    return _top_hooks is None or _top_hooks(False) is not None


# tensor subclasses

WithoutSubclasses: Callable[[], AbstractContextManager[None]] = _find(
    "torch._C.DisableTorchFunctionSubclass", nullcontext
)
"""Bypasses tensor subclasses while Whence inspects: even their shape may run program code."""


# operations

check_finite_and_unscale_: Callable[[list[torch.Tensor], torch.Tensor, torch.Tensor], Any] = _find(
    "torch._amp_foreach_non_finite_check_and_unscale_", _refuse
)
foreach_norm: Callable[..., Any] = _find("torch._foreach_norm", _refuse)
foreach_sub: Callable[..., Any] = _find("torch._foreach_sub", _refuse)
make_subclass: Any = _find("torch.Tensor._make_subclass", None)
nn_namespace: Any = _find("torch._C._nn", SimpleNamespace())
OpOverload: Any = _find("torch._ops.OpOverload", Absent)
OpOverloadPacket: Any = _find("torch._ops.OpOverloadPacket", Absent)


def _copy_each(into: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
    for one, other in zip(into, given, strict=True):
        one.copy_(other)


copy_all_: Callable[[list[torch.Tensor], list[torch.Tensor]], Any] = _find(
    "torch._foreach_copy_", _copy_each
)


# torch.func

eager_transforms: Any = _find(
    "torch._functorch.eager_transforms", SimpleNamespace(), "torch.func transforms"
)
apis: Any = _find("torch._functorch.apis", SimpleNamespace(), "torch.func transforms")
VMAP_FILE = _file_of("torch._functorch.vmap", "the arguments of a vmap that failed")
process_batched_inputs: Callable[..., Any] = _find(
    "torch._functorch.vmap._process_batched_inputs",
    _refuse,
    "the origin of a NaN within torch.vmap",
)
broadcast_to_and_flatten: Callable[..., Any] = _find(
    "torch.utils._pytree._broadcast_to_and_flatten",
    _refuse,
    "the origin of a NaN within torch.vmap",
)

# nested containers: what cannot be opened is one leaf

TreeSpec: Any = _find("torch.utils._pytree.TreeSpec", Absent)
tree_flatten: Callable[[Any], tuple[list[Any], Any]] = _find(
    "torch.utils._pytree.tree_flatten", lambda tree: ([tree], None), "tensors in nested containers"
)
tree_unflatten: Callable[[Any, Any], Any] = _find(
    "torch.utils._pytree.tree_unflatten",
    lambda leaves, _: next(iter(leaves)),
    "tensors in nested containers",
)
tree_map: Callable[[Callable[..., Any], Any], Any] = _find(
    "torch.utils._pytree.tree_map",
    lambda function, tree: function(tree),
    "tensors in nested containers",
)
tree_leaves: Callable[[Any], list[Any]] = _find(
    "torch.utils._pytree.tree_leaves", lambda tree: [tree], "tensors in nested containers"
)

# modules

BatchNorm: Any = _find(
    "torch.nn.modules.batchnorm._BatchNorm",
    (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
)
RunningNorm: Any = _find(
    "torch.nn.modules.batchnorm._NormBase",
    (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
)
"""Norms that may keep running statistics, including instance norms."""
Dropout: Any = _find(
    "torch.nn.modules.dropout._DropoutNd",
    (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
)
MODULE_CALL: CodeType = _find("torch.nn.Module._call_impl.__code__", nn.Module.__call__.__code__)
"""The code that runs a module's hooks and its forward."""
global_forward_pre_hooks: dict[int, Any] | None = _find(
    "torch.nn.modules.module._global_forward_pre_hooks", None
)
"""None if PyTorch keeps them elsewhere: then they stay on as long as the sensor is."""
global_forward_hooks: dict[int, Any] | None = _find(
    "torch.nn.modules.module._global_forward_hooks", None
)
_global_backward_hooks: dict[int, Any] = _find("torch.nn.modules.module._global_backward_hooks", {})
_global_backward_pre_hooks: dict[int, Any] = _find(
    "torch.nn.modules.module._global_backward_pre_hooks", {}
)
validate_sample: Any = _find("torch.distributions.Distribution._validate_sample", None)
"""The method by which a distribution rejects a sample of another shape."""


def global_hooks() -> list[dict[int, Any]]:
    """Return the hooks of all modules, for forward and backward."""
    forward = (global_forward_pre_hooks, global_forward_hooks)
    return [
        _global_backward_hooks,
        _global_backward_pre_hooks,
        *(each for each in forward if each is not None),
    ]


def optimized_module_class() -> type | None:
    """Return the class of modules made by `torch.compile`, if the compiler was imported."""
    found = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    return found if isinstance(found, type) else None


def forced_eager() -> AbstractContextManager[Any]:
    """Run compiled code as plain Python; before torch 2.6 compiled parts stay compiled."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    return set_stance("force_eager") if set_stance is not None else nullcontext()


FAKE_TENSOR_LOGGER = "torch._subclasses.fake_tensor"


def fake_tensor_mode() -> Any:
    """Return a mode whose tensors have shapes and no values.

    Imported on demand: it imports much else.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def is_internal(exception: type[BaseException]) -> bool:
    """Return whether PyTorch uses an exception class internally.

    Checkpointing stops a recomputation with one. A private class of its C++ is for programs:
    `torch.linalg.LinAlgError` is `_LinAlgError` there.
    """
    home = exception.__module__
    return exception.__name__.startswith("_") and home.startswith("torch.") and home != "torch._C"


# data loaders

LOADERS = "data loaders"
WORKERS = "samples of data loader workers"

LoaderIterator: Any = _find("torch.utils.data.dataloader._BaseDataLoaderIter", Absent, LOADERS)
WorkerIterator: Any = _find(
    "torch.utils.data.dataloader._MultiProcessingDataLoaderIter", Absent, LOADERS
)
FETCH_FILE = _file_of("torch.utils.data._utils.fetch", WORKERS)
_worker: Any = _find("torch.utils.data._utils.worker", None, WORKERS)


class _Unwrapped:
    exc_type: type[BaseException] | None = None
    exc_msg = ""

    def __init__(self, _exc_info: Any) -> None: ...
    def reraise(self) -> None: ...


ExceptionWrapper: Any = _find("torch._utils.ExceptionWrapper", _Unwrapped, WORKERS)
"""What a worker sends back in place of a batch, if an exception was raised there."""


def become_worker(number: int, *, workers: int, seed: int, dataset: Any) -> None:
    """Make `get_worker_info` in this process answer as it does in a data loader's worker."""
    if _worker is not None:
        _worker._worker_info = _worker.WorkerInfo(
            id=number, num_workers=workers, seed=seed, dataset=dataset
        )


def numpy_seed_of_worker(base: int, number: int) -> Any:
    """Return PyTorch's NumPy seed for a worker; None if this PyTorch does not seed NumPy."""
    generate = getattr(_worker, "_generate_state", None)
    return generate(base, number) if generate is not None else None


def do_not_end_workers() -> None:
    """Stop an iterator that is freed in a child process from ending the parent's workers."""
    if WorkerIterator is not Absent:
        WorkerIterator._shutdown_workers = lambda _: None
