"""PyTorch's private names, each with a fallback for a torch that lacks it.

This is the only file of Whence that names them. A torch without one of them costs the capability
that it served and not the tool: the fallback answers "unknown", and the report says what was not
watched (`missing_capabilities`). Names without a capability have a fallback that serves as well.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn

_missing: dict[str, str] = {}


def missing_capabilities() -> list[str]:
    """What this torch does not let Whence watch, with the private name that it lacks."""
    version = str(torch.__version__).partition("+")[0]
    return [f"{what}: torch {version} has no {name}" for what, name in _missing.items()]


def _find(path: str, fallback: Any, capability: str = "") -> Any:
    """The thing behind a dotted path, or the fallback; a capability that depends on it is noted."""
    try:
        return _resolve(path)
    except Exception:
        # An import that fails in another way than with ImportError is missing just as well.
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
    """A class that nothing is an instance of."""


def _refuse(*_: Any) -> Any:
    raise NotImplementedError("this torch lacks it")


# function and dispatch modes

CALLS = "torch calls"
MODES = "programs that use a dispatch mode of their own"

DeviceContext: Any = _find("torch.utils._device.DeviceContext", Absent)
_function_depth: Callable[[], int] = _find("torch._C._len_torch_function_stack", None, CALLS)
_function_mode_at: Callable[[int], Any] = _find("torch._C._get_function_stack_at", None, CALLS)
push_function_mode: Callable[[Any], None] = _find("torch.overrides._push_mode", _refuse, CALLS)
pop_function_mode: Callable[[], Any] = _find("torch.overrides._pop_mode", _refuse, CALLS)
_dispatch_modes: Callable[[], list[Any]] = _find(
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack", None, MODES
)


def function_modes() -> list[Any] | None:
    """The function modes that are on in this thread, outermost first; None if unknown."""
    if _function_depth is None or _function_mode_at is None:
        return None
    return [_function_mode_at(level) for level in range(_function_depth())]


def dispatch_modes() -> list[Any] | None:
    """The dispatch modes that are on in this thread, outermost first; None if unknown."""
    return list(_dispatch_modes()) if _dispatch_modes is not None else None


def take_off_function_mode(mode: Any) -> bool:
    """Remove a mode from the stack, from below others too; False if it is not on this thread's."""
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

are_transforms_active: Callable[[], bool] = _find(
    "torch._C._are_functorch_transforms_active", lambda: False, "torch.func transforms"
)
is_transformed: Callable[[Any], bool] = _find(
    "torch._C._functorch.is_functorch_wrapped_tensor", lambda _: False, "torch.func transforms"
)
"""Whether a tensor belongs to a `torch.func` transform, and has no values of its own."""
graph_task: Callable[[], int] = _find("torch._C._current_graph_task_id", lambda: -1, "updates within backward")
"""The number of the backward pass that runs in this thread, -1 if none does."""
next_node_number: Callable[[], int] = _find("torch.autograd._get_sequence_nr", lambda: 0, "autograd's graph")
"""Autograd's number for the node that it will make next."""
SAVED_TENSORS_SHOW_DATA = hasattr(_find("torch._C._autograd.SavedTensor", None), "data")
"""From torch 2.7 on a node shows the memory of what it saved, also after a change in place."""
_engine = _find("torch.autograd.Variable._execution_engine", None)
_top_hooks: Callable[[bool], Any] | None = _find("torch._C._autograd._top_saved_tensors_default_hooks", None)
_profiler_enabled: Callable[[], bool] | None = _find("torch._C._autograd._profiler_enabled", None)


def input_metadata(node: Any) -> Sequence[Any]:
    """Shapes, types and devices of the gradients that a node receives; none where torch (before 2.5) does not tell."""
    return getattr(node, "_input_metadata", ())


def run_backward(loss: torch.Tensor) -> None:
    """Do what `loss.backward()` does, without the Python around it that modes are shown first."""
    if _engine is None:
        torch.autograd.backward(loss, torch.ones_like(loss), retain_graph=True)
        return
    _engine.run_backward(
        (loss,), (torch.ones_like(loss),), True, False, (), allow_unreachable=True, accumulate_grad=True
    )


def may_have_saved_tensor_hooks() -> bool:
    """Whether somebody's hooks see what autograd saves now; True where torch (before 2.8) does not say."""
    return _top_hooks is None or _top_hooks(False) is not None


def is_profiling() -> bool:
    """Whether a profiler is on. Unknown counts as no: then it merely counts some calls more."""
    return _profiler_enabled is not None and bool(_profiler_enabled())


# tensor subclasses

WITHOUT_SUBCLASSES: Any = _find("torch._C._TorchFunctionState.SUBCLASSES_DISABLED", "without subclasses")
"""During an inspection no tensor subclass is called: even its shape may be code of the program's."""


class _SubclassGuards(threading.local):
    """The same for a torch without a setter of that state: it has a context manager only."""

    def __init__(self) -> None:
        self._entered: list[Any] = []

    def state(self) -> int:
        return len(self._entered)

    def set(self, state: Any) -> None:
        """Enter one more guard, or leave those that were entered since a state was asked for."""
        if state is WITHOUT_SUBCLASSES:
            guard = _DisableSubclasses()
            guard.__enter__()
            self._entered.append(guard)
            return
        while len(self._entered) > state:
            self._entered.pop().__exit__(None, None, None)


_guards = _SubclassGuards()
_DisableSubclasses: Any = _find("torch._C.DisableTorchFunctionSubclass", nullcontext, "programs with tensor subclasses")
function_state: Callable[[], Any] = _find("torch._C._get_torch_function_state", _guards.state)
set_function_state: Callable[[Any], None] = _find("torch._C._set_torch_function_state", _guards.set)


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


copy_all_: Callable[[list[torch.Tensor], list[torch.Tensor]], Any] = _find("torch._foreach_copy_", _copy_each)


# torch.func

eager_transforms: Any = _find("torch._functorch.eager_transforms", SimpleNamespace(), "torch.func transforms")
apis: Any = _find("torch._functorch.apis", SimpleNamespace(), "torch.func transforms")
VMAP_FILE = _file_of("torch._functorch.vmap", "the arguments of a vmap that failed")
process_batched_inputs: Callable[..., Any] = _find(
    "torch._functorch.vmap._process_batched_inputs", _refuse, "the origin of a NaN within torch.vmap"
)
broadcast_to_and_flatten: Callable[..., Any] = _find(
    "torch.utils._pytree._broadcast_to_and_flatten", _refuse, "the origin of a NaN within torch.vmap"
)

# nested containers: what cannot be opened is one leaf

TreeSpec: Any = _find("torch.utils._pytree.TreeSpec", Absent)
tree_flatten: Callable[[Any], tuple[list[Any], Any]] = _find(
    "torch.utils._pytree.tree_flatten", lambda tree: ([tree], None), "tensors in nested containers"
)
tree_unflatten: Callable[[Any, Any], Any] = _find(
    "torch.utils._pytree.tree_unflatten", lambda leaves, _: next(iter(leaves)), "tensors in nested containers"
)
tree_map: Callable[[Callable[..., Any], Any], Any] = _find(
    "torch.utils._pytree.tree_map", lambda function, tree: function(tree), "tensors in nested containers"
)
tree_leaves: Callable[[Any], list[Any]] = _find(
    "torch.utils._pytree.tree_leaves", lambda tree: [tree], "tensors in nested containers"
)

# modules

BatchNorm: Any = _find(
    "torch.nn.modules.batchnorm._BatchNorm", (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
)
RunningNorm: Any = _find(
    "torch.nn.modules.batchnorm._NormBase", (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
)
"""Norms that may keep running statistics: instance norms are among them."""
Dropout: Any = _find(
    "torch.nn.modules.dropout._DropoutNd",
    (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
)
global_forward_pre_hooks: dict[int, Any] | None = _find("torch.nn.modules.module._global_forward_pre_hooks", None)
"""None where torch keeps them elsewhere: then they stay on as long as the sensor is."""
global_forward_hooks: dict[int, Any] | None = _find("torch.nn.modules.module._global_forward_hooks", None)
validate_sample: Any = _find("torch.distributions.Distribution._validate_sample", None)
"""The method by which a distribution refuses a sample of another shape."""


def optimized_module_class() -> type | None:
    """The class of modules that `torch.compile` makes, if the compiler was imported already."""
    found = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    return found if isinstance(found, type) else None


def forced_eager() -> AbstractContextManager[Any]:
    """Run what `torch.compile` has compiled as plain Python; before torch 2.6 compiled parts stay compiled."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    return set_stance("force_eager") if set_stance is not None else nullcontext()


FAKE_TENSOR_LOGGER = "torch._subclasses.fake_tensor"


def fake_tensor_mode() -> Any:
    """A mode whose tensors have shapes and no values. Imported when asked for: it brings much with it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


# data loaders

LOADERS = "data loaders"
WORKERS = "samples of data loader workers"

LoaderIterator: Any = _find("torch.utils.data.dataloader._BaseDataLoaderIter", Absent, LOADERS)
WorkerIterator: Any = _find("torch.utils.data.dataloader._MultiProcessingDataLoaderIter", Absent, LOADERS)
FETCH_FILE = _file_of("torch.utils.data._utils.fetch", WORKERS)
_worker: Any = _find("torch.utils.data._utils.worker", None, WORKERS)


class _Unwrapped:
    exc_type: type[BaseException] | None = None
    exc_msg = ""

    def __init__(self, _exc_info: Any) -> None: ...
    def reraise(self) -> None: ...


ExceptionWrapper: Any = _find("torch._utils.ExceptionWrapper", _Unwrapped, WORKERS)
"""What a worker sends home in place of a batch, if something was raised there."""


def become_worker(number: int, *, workers: int, seed: int, dataset: Any) -> None:
    """Have `get_worker_info` in this process answer as it does in a data loader's worker."""
    if _worker is not None:
        _worker._worker_info = _worker.WorkerInfo(id=number, num_workers=workers, seed=seed, dataset=dataset)


def numpy_seed_of_worker(base: int, number: int) -> Any:
    """What torch seeds numpy with in a worker; None if this torch does not."""
    generate = getattr(_worker, "_generate_state", None)
    return generate(base, number) if generate is not None else None


def do_not_end_workers() -> None:
    """In a child process: an iterator that is freed there would send the parent's workers home."""
    if WorkerIterator is not Absent:
        WorkerIterator._shutdown_workers = lambda _: None
