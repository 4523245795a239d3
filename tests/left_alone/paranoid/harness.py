"""Paranoid mode: two invariants of the watch, enforced while a program runs.

1. No frame of the program runs below a frame of Whence, except through a pass-through function.
2. What the program can observe is the same before and after each check.

Each violation is one JSON line in a file. Python's profiling hook,
which sees each call, finds frames below others. A pass-through function is one in
`whence.sensors.sensor.PASS_THROUGH` or, if that set does not exist, anything in sensors/.
"""

from __future__ import annotations

import _signal
import ctypes
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import site
import sys
import sysconfig
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any

LIBRARY, WHENCE, PROGRAM, STAND_IN = "library", "whence", "program", "stand-in"
SESSIONS = ("whence.watching.session", "whence.engine.session")
CHILDREN = ("whence.lineage.elsewhere", "whence.rerun.child")
MOST_VIOLATIONS = 200
DEEPEST_STACK = 40
LIVE_EVERY = 400
"""Live objects are counted at the first looks, and then at one in so many: each costs 30 ms."""
LIVE_FIRST = (2, 10, 50)
ALL_LOOKS, LOOKS_EVERY = 300, 10
"""So many looks are compared one by one, and then one in so many."""
SIGNALS = sorted(map(int, signal.valid_signals()))
STAND_INS = {
    (os.path.join("unittest", "mock.py"), "__call__"),
    (os.path.join("torch", "_dynamo", "eval_frame.py"), "compile_wrapper"),
    (os.path.join("torch", "utils", "checkpoint.py"), "recompute_fn"),
    (os.path.join("torch", "utils", "checkpoint.py"), "pack_hook"),
    (os.path.join("torch", "utils", "checkpoint.py"), "unpack_hook"),
}
"""Functions of libraries that run what the program has made: they count as the program's."""
PASSED_ON = {(os.path.join("tape", "tape.py"), "CustomFunction.__call__")}
"""What a sensor calls through that is not in sensors/, as long as nothing is declared."""


PASSAGE = "<passed on by whence>"


class Harness:
    """The checks of one process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._owner = os.getpid()
        self._kinds: dict[CodeType, str] = {}
        self._types: dict[type, bool] = {}
        self._pass_through: set[tuple[str, str, int]] | None = None
        self._seen: set[Any] = set()
        self._collecting = False
        self._looks = 0
        self._before: list[tuple[dict[str, Any], list[str]]] = []
        self._folders = _library_folders()
        self._whence = _whence_folder()

    def install(self) -> None:
        gc.callbacks.append(self._collects)
        for name in SESSIONS:
            if name in sys.modules:
                self._watch_looks(sys.modules[name])
        sys.meta_path.insert(0, _AfterImport(self._watch_looks))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._rest)
        if hasattr(sys, "monitoring"):
            self._monitor()
        else:
            self._profile()

    def _rest(self) -> None:
        """Allow a forked child to run the program's Python, which is its purpose."""
        if hasattr(sys, "monitoring"):
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
        else:
            sys.setprofile(None)

    # Frames of the program below frames of Whence

    def _profile(self) -> None:
        """Handle each call and return of Python and C; nothing is looked up twice."""
        known, kind_of, entered = self._kinds.get, self._kind, self._entered

        def profiled(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                code = frame.f_code
                kind = known(code) or kind_of(code)
                if kind is not LIBRARY and kind is not WHENCE:
                    entered(frame)

        sys.setprofile(profiled)

    def _monitor(self) -> None:
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.PROFILER_ID, "paranoid")

        def started(code: CodeType, _: int) -> Any:
            if self._kind(code) in (LIBRARY, WHENCE):
                return monitoring.DISABLE
            self._entered(sys._getframe(1))
            return None

        events = monitoring.events
        monitoring.register_callback(monitoring.PROFILER_ID, events.PY_START, started)
        monitoring.set_events(monitoring.PROFILER_ID, events.PY_START)

    def _entered(self, frame: FrameType) -> None:
        """Find the caller of a program function that begins."""
        outer = frame.f_back
        while outer is not None:
            kind = self._kind(outer.f_code)
            if kind is PROGRAM or self._is_runner(outer.f_code):
                return
            if kind is WHENCE and not self._passes_through(outer.f_code):
                break
            outer = outer.f_back
        if outer is None or self._is_excused(frame):
            return
        caller = f"{_place(outer)}"
        self._violation(
            "program below whence", f"{_place(frame)} is run by {caller}", _stack(frame)
        )

    def _is_excused(self, frame: FrameType) -> bool:
        """Exempt signal handlers and finalisers, which the interpreter runs anywhere."""
        if self._is_child():
            return True
        if self._collecting:
            return True
        code = frame.f_code
        return any(_code_of(_signal.getsignal(each)) is code for each in SIGNALS)

    def _is_child(self) -> bool:
        asked = (sys.modules.get(name) for name in CHILDREN)
        return os.getpid() != self._owner or any(
            getattr(each, "_is_child", False) for each in asked
        )

    def _passes_through(self, code: CodeType) -> bool:
        sensor = sys.modules.get("whence.sensors.sensor")
        declared: set[CodeType] = getattr(sensor, "PASS_THROUGH", set())
        if not declared:
            file = os.path.relpath(code.co_filename.split("#")[0], self._whence)
            return file.startswith("sensors" + os.sep) or (file, code.co_qualname) in PASSED_ON
        if self._pass_through is None or len(self._pass_through) < len(declared):
            # By name and line: sensors compile the same code under another file name.
            self._pass_through = {_identity(each) for each in declared}
        return _identity(code) in self._pass_through

    def _is_runner(self, code: CodeType) -> bool:
        """Whether this is Whence's function that runs the program, or the code that finds it."""
        files = {os.path.join("cli", "__init__.py"), os.path.join("sensors", "program.py")}
        return os.path.relpath(code.co_filename, self._whence) in files

    def _kind(self, code: CodeType) -> str:
        if code.co_name == PASSAGE:
            # It has the file of the caller whose call it passes on.
            self._kinds[code] = LIBRARY
            return LIBRARY
        known = self._kinds.get(code)
        if known is None:
            known = self._kind_of_file(code.co_filename)
            if known is LIBRARY and _stands_in(code):
                known = STAND_IN
            self._kinds[code] = known
        return known

    def _kind_of_file(self, name: str) -> str:
        if name.startswith(self._whence + os.sep):
            return WHENCE
        if name.startswith("<"):
            return LIBRARY
        path = os.path.abspath(name)
        real = os.path.realpath(path)
        is_library = path.startswith(self._folders) or real.startswith(self._folders)
        return LIBRARY if is_library else PROGRAM

    def _collects(self, phase: str, _: Any) -> None:
        self._collecting = phase == "start"

    # What the program can observe

    def _watch_looks(self, session: ModuleType) -> None:
        looking = getattr(session, "_Looking", None)
        if looking is None or hasattr(looking, "_is_paranoid"):
            return
        enter, leave = looking.__enter__, looking.__exit__
        harness = self

        def __enter__(self: Any) -> Any:
            harness._look_begins(self)
            return enter(self)

        def __exit__(self: Any, *args: Any) -> Any:
            try:
                return leave(self, *args)
            finally:
                harness._look_ends(self)

        looking.__enter__, looking.__exit__, looking._is_paranoid = __enter__, __exit__, True

    def _look_begins(self, look: Any) -> None:
        if look._session.is_looking or threading.current_thread() is not threading.main_thread():
            return
        self._looks += 1
        if self._looks <= ALL_LOOKS or self._looks % LOOKS_EVERY == 0:
            self._before = [(self._snapshot(look), _stack(sys._getframe(2)))]

    def _look_ends(self, look: Any) -> None:
        if look._session.is_looking or not self._before or self._is_child():
            return
        before, began = self._before.pop()
        after = self._snapshot(look)
        for what, was in before.items():
            now = after.get(what, was)
            if what == "live objects":
                grown = dict((now - was).items())
                if grown:
                    self._violation(what, f"{grown} more than before the look", began)
            elif what == "weights and buffers":
                changed = [
                    name
                    for key, (name, version) in was.items()
                    if now.get(key, (name, version))[1] != version
                ]
                if changed:
                    self._violation(what, f"{changed} are written to by the look", began)
            elif what == "warnings.showwarning" and not (was and now):
                continue
            elif now != was:
                text = f"{_shown(was)} before the look, {_shown(now)} after it"
                self._violation(what, text, began, _stack(sys._getframe(2)))

    def _snapshot(self, look: Any) -> dict[str, Any]:
        profile = sys.getprofile()
        sys.setprofile(None)
        try:
            written = {"weights and buffers": _versions(look._session)}
            return {"sys.getprofile": profile, **written, **self._observable()}
        finally:
            sys.setprofile(profile)

    def _observable(self) -> dict[str, Any]:
        seen: dict[str, Any] = {
            "threads": [each.name for each in threading.enumerate()],
            "signal handlers": [_signal.getsignal(each) for each in SIGNALS],
            "timer": signal.getitimer(signal.ITIMER_REAL)[1],
            "random": random.getstate(),
            "warnings.filters": (id(warnings.filters), list(warnings.filters)),
            "warnings.showwarning": self._showwarning(),
            "sys.stdout": id(sys.stdout),
            "sys.stderr": id(sys.stderr),
            "sys.excepthook": id(sys.excepthook),
            "sys.path": list(sys.path),
            "sys.gettrace": sys.gettrace(),
            "recursion limit": sys.getrecursionlimit(),
            "garbage collection": (gc.isenabled(), gc.get_threshold()),
            "working directory": os.getcwd(),
            **_torch_state(),
        }
        if "numpy" in sys.modules:
            name, keys, *rest = sys.modules["numpy"].random.get_state()
            seen["numpy random"] = (name, keys.tobytes(), *rest)
        if self._looks in LIVE_FIRST or self._looks % LIVE_EVERY == 0:
            seen["live objects"] = self._live()
        return seen

    def _showwarning(self) -> int:
        """Ignore Whence's own wrapper, which is installed only while recording, like its mode."""
        code = _code_of(warnings.showwarning)
        return 0 if code is not None and self._kind(code) is WHENCE else id(warnings.showwarning)

    def _live(self) -> Counter[str]:
        """Finished frames and instances of program classes, as far as gc tracks them."""
        found: Counter[str] = Counter()
        known = self._types
        for each in gc.get_objects():
            kind = type(each)
            if kind is FrameType:
                if self._kind(each.f_code) is PROGRAM:
                    found[f"frame of {each.f_code.co_qualname}"] += 1
            elif known.get(kind) if kind in known else self._is_program_type(kind):
                found[kind.__qualname__] += 1
        return found

    def _is_program_type(self, kind: type) -> bool:
        module = sys.modules.get(type.__getattribute__(kind, "__module__") or "")
        file = vars(module).get("__file__") if module is not None else None
        is_program = isinstance(file, str) and self._kind_of_file(file) is PROGRAM
        self._types[kind] = is_program
        return is_program

    # Report

    def _violation(self, kind: str, what: str, *stacks: list[str]) -> None:
        key = (kind, tuple(map(tuple, stacks)))
        if key in self._seen or len(self._seen) > MOST_VIOLATIONS:
            return
        self._seen.add(key)
        line = json.dumps({"kind": kind, "what": what, "stacks": stacks}) + "\n"
        number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(number, line.encode(errors="replace"))
        os.close(number)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Call an action on the session's module as soon as it is imported."""

    def __init__(self, action: Any) -> None:
        self._action = action
        self._busy = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in SESSIONS or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _torch_state() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "default_generator"):
        return {}
    core = torch._C
    with core.DisableTorchFunction():
        state = torch.default_generator.get_state()
        drawn = ctypes.string_at(state.data_ptr(), state.numel())
    functions = map(core._get_function_stack_at, range(core._len_torch_function_stack()))
    dispatches = map(core._get_dispatch_stack_at, range(core._len_torch_dispatch_stack()))
    return {
        "torch random": drawn,
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        "default dtype": torch.get_default_dtype(),
        "threads of torch": torch.get_num_threads(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        # Whence's own mode is on only while recording.
        "function modes": [id(each) for each in functions if not _is_whence(each)],
        "dispatch modes": [id(each) for each in dispatches if not _is_whence(each)],
        "saved-tensor hooks": _saved_tensor_hooks(),
    }


def _saved_tensor_hooks() -> Any:
    """The innermost default hooks; None before torch 2.8, which does not show them."""
    core = sys.modules["torch"]._C._autograd
    asked = getattr(core, "_top_saved_tensors_default_hooks", None)
    return asked(True) if asked is not None else None


def _versions(session: Any) -> dict[int, tuple[str, int]]:
    """How often each parameter and buffer was written, without running program code."""
    torch = sys.modules["torch"]
    found: dict[int, tuple[str, int]] = {}
    todo = [(type(each).__name__, each) for each in getattr(session, "roots", list)()]
    with torch._C.DisableTorchFunction():
        while todo:
            path, module = todo.pop()
            inside = vars(module)
            todo += [
                (f"{path}.{key}", each)
                for key, each in inside["_modules"].items()
                if each is not None
            ]
            for name, tensor in (*inside["_parameters"].items(), *inside["_buffers"].items()):
                if type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_inference():
                    found[id(tensor)] = (f"{path}.{name}", tensor._version)
    return found


def _is_whence(thing: Any) -> bool:
    return type(thing).__module__.startswith("whence.")


def _stands_in(code: CodeType) -> bool:
    file = code.co_filename
    return any(code.co_name == name and file.endswith(end) for end, name in STAND_INS)


def _identity(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename.split("#")[0], code.co_qualname, code.co_firstlineno


def _code_of(handler: Any) -> CodeType | None:
    function = getattr(handler, "__func__", handler)
    return getattr(function, "__code__", None)


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= set(site.getsitepackages()) | {os.path.dirname(os.__file__)}
    return tuple({each + os.sep for each in (*folders, *map(os.path.realpath, folders))})


def _whence_folder() -> str:
    spec = importlib.util.find_spec("whence")
    assert spec is not None
    assert spec.origin is not None
    return os.path.dirname(os.path.abspath(spec.origin))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _place(frame: FrameType) -> str:
    code = frame.f_code
    file = os.sep.join(code.co_filename.split("#")[0].split(os.sep)[-2:])
    return f"{file}:{frame.f_lineno} {code.co_qualname}"


def _stack(frame: FrameType) -> list[str]:
    """The frames, innermost first, up to the code that runs the program."""
    places = []
    for each in _frames(frame):
        if each.f_code.co_filename.endswith(os.path.join("sensors", "program.py")):
            break
        places.append(_place(each))
    return places[:DEEPEST_STACK]


def _shown(value: Any) -> str:
    """Describe an object without calling the program's `__repr__`."""
    if isinstance(value, bytes):
        return f"{hash(value) & 0xFFFF:04x}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_shown(each) for each in value[:70]) + "]"
    plain = value is None or isinstance(value, str | int | float | bool)
    return repr(value)[:60] if plain else f"{type(value).__name__} {getattr(value, '__name__', '')}"
