"""Small edits of how data are read, shuffled and iterated."""

from __future__ import annotations

import ast
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from whence.lineage.looking import Unknown, look
from whence.source.blocks import (
    BLOCKS,
    LOOPS,
    SCOPES,
    bound_by,
    dotted,
    is_run_before,
    iterated,
    names_in,
    statements_around,
)
from whence.source.definitions import Kind, find_definition, find_function, own_nodes
from whence.source.edits import diff_of, give_by_name, insert_before, replace_node
from whence.source.seeds import MIXING, PICKING
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.statements import import_of, line_before, move_before, reached
from whence.source.text import (
    enclosing,
    function_node,
    last_name,
    parent_of,
    root_name,
    statement_of,
    text_of,
    tree_of,
)

ORDERING = frozenset({"sampler", "batch_sampler", "shuffle", None})
LAZY = (ast.Call, ast.GeneratorExp)


def shuffled(built: Spot | None) -> str | None:
    """Add `shuffle=True` to a loader without its own order."""
    node = built.node() if built is not None else None
    if built is None or not isinstance(node, ast.Call) or last_name(node.func) != "DataLoader":
        return None
    said = {each.arg: each.value for each in node.keywords}
    is_off = isinstance(off := said.get("shuffle"), ast.Constant) and off.value is False
    if len(node.args) > 2 or (
        ORDERING & said.keys() and not (is_off and len(ORDERING & said.keys()) == 1)
    ):
        return None
    return diff_of(give_by_name(built.filename, node, "shuffle", "True"))


def keep_draw_patch(spot: Spot | None) -> str | None:
    """Change `random.sample(rows, len(rows))` to `rows = random.sample(rows, len(rows))`."""
    node = spot.node() if spot is not None else None
    match node:
        case ast.Call(
            func=ast.Attribute(attr="sample"), args=[ast.Name(id=name), ast.Call() as size]
        ) if last_name(size.func) == "len" and names_in(size) == {"len", name}:
            pass
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="sample"),
            args=[],
            keywords=[ast.keyword(arg="frac")],
        ):
            pass
        case ast.Subscript(value=ast.Name(id=name)):
            pass
        case _:
            return None
    return diff_of(insert_before(spot.filename, node, f"{name} = ")) if spot is not None else None


def transform_only_patch(spot: Spot | None) -> str | None:
    """Change `fit_transform` to `transform`, if the same scaler was fitted above."""
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.AST):
        return None
    fits = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and last_name(each.func) == "fit_transform"
    ]
    func = fits[0].func if len(fits) == 1 else None
    scaler = dotted(func.value) if isinstance(func, ast.Attribute) else None
    scope, here = enclosing(node, *SCOPES), statement_of(node)
    if scaler is None or scope is None or here is None or not isinstance(func, ast.Attribute):
        return None
    for each in own_nodes(scope):
        is_fit = isinstance(each, ast.Call) and last_name(each.func) in ("fit", "fit_transform")
        owner = each.func if isinstance(each, ast.Call) else None
        if is_fit and isinstance(owner, ast.Attribute) and dotted(owner.value) == scaler:
            first = statement_of(each)
            if first is not None and is_run_before(first, here):
                return diff_of(replace_node(spot.filename, func, f"{scaler}.transform"))
    return None


def as_list_patch(made: Spot | None, loop: Spot) -> str | None:
    """Turn a one-shot iterable that a loop uses by name into a list, or drop its `iter`."""
    node, head = (made.node() if made is not None else None), loop.node()
    around = (
        head
        if isinstance(head, ast.For)
        else enclosing(head, ast.For)
        if head is not None
        else None
    )
    if made is None or not isinstance(node, LAZY) or not isinstance(around, ast.For):
        return None
    if dotted(iterated(around.iter)) is None:
        return None
    text = text_of(made.filename, node)
    match node:
        case _ if _draws(node, made.filename):
            # A list would repeat the same random numbers in each epoch.
            return None
        case ast.Call(func=ast.Name(id="iter"), args=[source]):
            return diff_of(replace_node(made.filename, node, text_of(made.filename, source)))
        case ast.Call(func=ast.Name(id="zip" | "enumerate")):
            # A list of loaders, which reshuffle in each epoch, would keep the first order.
            return None
        case ast.GeneratorExp() if text.startswith("("):
            return diff_of(replace_node(made.filename, node, f"[{text[1:-1]}]"))
    return diff_of(replace_node(made.filename, node, f"list({text})"))


def _draws(node: ast.AST, filename: str) -> bool:
    """Whether an expression draws random numbers, directly or in a function of the same file."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    tree = tree_of(filename) or ast.Module([], [])
    called = (
        find_function(last_name(each.func), tree)
        for each in calls
        if isinstance(each.func, ast.Name)
    )
    inside = (each for function in called if function is not None for each in ast.walk(function))
    names = {last_name(each.func) for each in (*calls, *inside) if isinstance(each, ast.Call)}
    return any(each in MIXING | PICKING or each.startswith("rand") for each in names)


def epoch_told(stack: tuple[Site, ...], part: str, frames: list[FrameType]) -> Spot | None:
    """The `set_epoch` call on a part of a loader, in the function that iterates the loader."""
    over = _loop_over(stack[0] if stack else None, frames)
    if over is None:
        return None
    loader, _, frame = over
    own = getattr(loader, part, None)
    scope = function_node(stack[0])
    for node in own_nodes(scope) if scope is not None else ():
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="set_epoch"), args=[_]):
                try:
                    if own is not None and look(owner, frame) is own:
                        return Spot.of_node(stack[0].filename, node)
                except Unknown:
                    continue
    return None


def _loop_over(
    site: Site | None, frames: list[FrameType]
) -> tuple[DataLoader[Any], ast.For, FrameType] | None:
    """A loader, the loop over it, and the variables there."""
    statement = site.statement() if site is not None else None
    frame = next((each for each in frames if site is not None and each.f_code is site.f_code), None)
    if not isinstance(statement, ast.For) or frame is None:
        return None
    try:
        loader = look(iterated(statement.iter), frame)
    except Unknown:
        return None
    return (loader, statement, frame) if isinstance(loader, DataLoader) else None


def told_the_epoch(site: Site | None, part: str, frames: list[FrameType]) -> str | None:
    """Insert `loader.sampler.set_epoch(epoch)` before the loop over a loader.

    If the program calls it with another number, change only the argument.
    """
    over = _loop_over(site, frames)
    if site is None or over is None:
        return None
    _, statement, _ = over
    name, counting = dotted(iterated(statement.iter)), enclosing(statement, *LOOPS, *SCOPES)
    if (
        name is None
        or not isinstance(counting, ast.For)
        or not isinstance(counting.target, ast.Name)
    ):
        return None
    if not isinstance(counting.iter, ast.Call) or last_name(counting.iter.func) not in (
        "range",
        "trange",
    ):
        return None
    known = epoch_told((site,), part, frames)
    call = known.node() if known is not None else None
    if isinstance(call, ast.Call):
        if counting not in statements_around(call) or names_in(call.args[0]) & bound_by(counting):
            return None
        return diff_of(replace_node(site.filename, call.args[0], counting.target.id))
    return diff_of(
        line_before(site.filename, statement, f"{name}.{part}.set_epoch({counting.target.id})")
    )


def seed_once_patch(seeding: Spot | None) -> str | None:
    """Move a seed that is set in a loop before it."""
    node = seeding.node() if seeding is not None else None
    statement = statement_of(node) if node is not None else None
    if seeding is None or not isinstance(statement, ast.Expr):
        return None
    outside: ast.stmt | None = None
    for each in reversed(statements_around(statement)[:-1]):
        if not isinstance(each, BLOCKS) or names_in(statement) & bound_by(each):
            break
        outside = each if isinstance(each, LOOPS) else outside
    return (
        diff_of(*move_before(seeding.filename, statement, outside)) if outside is not None else None
    )


def copy_patch(changing: Spot | None) -> str | None:
    """Change `image = self.images[i]` to a deepcopy, if the same method modifies it."""
    node = changing.node() if changing is not None else None
    statement = statement_of(node) if node is not None else None
    scope = enclosing(statement, *SCOPES) if statement is not None else None
    name = _changed_in(statement) if statement is not None else ""
    if changing is None or not name or not isinstance(scope, ast.FunctionDef) or statement is None:
        return None
    found = find_definition(name, scope, statement)
    value = found.value if found is not None and found.kind is Kind.ASSIGNED else None
    first = next((each.arg for each in scope.args.args), None)
    if not isinstance(value, ast.Subscript | ast.Attribute) or root_name(value) != first:
        return None
    text = f"copy.deepcopy({text_of(changing.filename, value)})"
    return diff_of(
        *import_of(changing.filename, "copy"), replace_node(changing.filename, value, text)
    )


def _changed_in(statement: ast.stmt) -> str:
    """The variable that a statement writes into, or whose method it calls as a statement."""
    match statement:
        case (
            ast.Assign(targets=[ast.Subscript() | ast.Attribute() as target])
            | ast.AugAssign(target=target)
        ):
            return root_name(target)
        case ast.Expr(value=ast.Call() as call):
            return root_name(call)
    return ""


def split_stream_patch(source: Spot | None) -> str | None:
    """Give each worker its share of a stream's loop, if its iterations are independent."""
    node = source.node() if source is not None else None
    loop = parent_of(node) if node is not None else None
    method = enclosing(loop, *SCOPES) if loop is not None else None
    if (
        source is None
        or not isinstance(loop, ast.For)
        or loop.iter is not node
        or not isinstance(method, ast.FunctionDef)
    ):
        return None
    if (
        not _is_independent(loop, method)
        or _draws(method, source.filename)
        or "worker" in names_in(method)
    ):
        return None
    worker, first = reached(source.filename, "torch.utils.data", "get_worker_info")
    islice, second = reached(source.filename, "itertools", "islice")
    text = text_of(source.filename, loop.iter)
    share = (
        f"{islice}({text}, worker.id if worker else 0, None, worker.num_workers if worker else 1)"
    )
    asked = line_before(source.filename, loop, f"worker = {worker}()")
    return diff_of(*first, *second, asked, replace_node(source.filename, loop.iter, share))


def _is_independent(loop: ast.For, method: ast.FunctionDef) -> bool:
    """Whether no iteration uses earlier results of the method or writes what outlives it."""
    body = [node for each in loop.body for node in ast.walk(each)]
    made = {name for each in method.body for name in bound_by(each)} - bound_by(loop)
    written = [
        each
        for each in body
        if isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store)
    ]
    carried = {
        each.target.id
        for each in body
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    }
    used = {each.id for each in body if isinstance(each, ast.Name)}
    kept = [
        each
        for each in body
        if isinstance(each, ast.Call) and root_name(each.func) == "self" and _fills(each)
    ]
    return not used & made and not written and not carried and not kept


def _fills(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Attribute)
