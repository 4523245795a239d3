"""What a property passes through, by what the syntax says: the operands of an expression, and calls that make nothing of their own."""

from __future__ import annotations

import ast
import sys

from whence.source.definitions import FunctionNode, Kind, default_for, find_definition
from whence.source.text import enclosing, last_name

# Library calls through which a type, a column or a value passes from the first argument.
PASSING = {"array", "int", "split", "array_split", "asarray", "ascontiguousarray", "tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "stack",
           "concatenate", "vstack", "hstack", "column_stack", "list", "tuple", "copy", "deepcopy", "LongTensor", "Variable",
           "repeat", "tile", "squeeze", "expand_dims", "transpose", "clip", "sorted", "iter", "next", "zip", "enumerate", "reversed"}  # fmt: skip
VIEWS = {"reshape", "view", "ravel", "flatten", "T", "squeeze", "swapaxes", "transpose", "copy"}
# What these make has columns of several tables, or others than what it is made from.
JOINS = {"merge", "join", "merge_asof", "merge_ordered", "pivot", "pivot_table", "melt", "stack", "unstack", "agg", "aggregate",
         "groupby", "apply", "assign"}  # fmt: skip
# What these make draws numbers, and is none.
GENERATORS = {"default_rng", "RandomState", "Random", "Generator", "manual_seed"}
MODULES = {"np", "numpy", "torch", "nn", "F", "pd", "random", "math", "os", "rng"}


def parts_of(node: ast.expr) -> list[ast.expr]:
    """The operands of an expression, the likeliest bearer of the property first."""
    match node:
        case ast.Call(func=ast.Attribute(value=receiver), args=args, keywords=keywords):
            return [receiver, *map(_unstarred, args), *(keyword.value for keyword in keywords)]
        case ast.Call(args=args, keywords=keywords):
            return [*map(_unstarred, args), *(keyword.value for keyword in keywords)]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case (
            ast.Subscript(value=value)
            | ast.Attribute(value=value)
            | ast.UnaryOp(operand=value)
            | ast.Starred(value=value)
        ):
            return [value]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return list(elements)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return [element, *(each.iter for each in node.generators)]
        case ast.NamedExpr(value=value) | ast.Await(value=value):
            return [value]
    return []


def _unstarred(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def is_number(node: ast.expr, scope: ast.AST) -> bool:
    """Whether it is a plain number, which brings neither a type nor a size into what is computed with it: by what is written of it."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.UnaryOp(operand=operand):
            return is_number(operand, scope)
        case ast.BinOp(left=left, right=right):
            return is_number(left, scope) and is_number(right, scope)
        case ast.Name(id=name):
            known = find_definition(name, scope, None)
            if (
                known is not None
                and known.kind is Kind.PARAMETER
                and isinstance(scope, FunctionNode)
            ):
                return isinstance(default_for(scope, name), ast.Constant)
            return known is not None and isinstance(known.value, ast.Constant)
    return False


def only_passes(node: ast.expr) -> bool:
    """Whether an expression makes nothing of its own: a part, a view, a copy of what it is given."""
    return not isinstance(node, ast.Call) or last_name(node.func) in PASSING | VIEWS


def joins(node: ast.expr) -> bool:
    """Whether a column of what an expression makes may be none of what it is called on."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in JOINS
    )


def is_join(node: ast.expr) -> bool:
    """Two tables put side by side, by keys: what one of them has not is left empty."""
    return joins(node) and last_name(node.func) in ("merge", "join", "merge_asof", "merge_ordered")  # type: ignore[attr-defined]


def passes(call: ast.Call, part: ast.expr) -> bool:
    """Whether a property passes through a library call from this part: from the receiver, or as PASSING says."""
    if isinstance(call.func, ast.Attribute) and part is call.func.value:
        if isinstance(part, ast.Call) and last_name(part.func) in GENERATORS:
            return False
        return not isinstance(part, ast.Name | ast.Attribute) or not _is_module_path(part)
    return bool(call.args) and part is _unstarred(call.args[0]) and last_name(call.func) in PASSING


def _is_module_path(node: ast.expr) -> bool:
    """`np.random`, `torch.nn.functional`: a dotted path that begins with a module, and not with a variable that is called like one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    return node.id in MODULES or (node.id in sys.modules and not _is_variable(node))


def _is_variable(node: ast.Name) -> bool:
    scope = enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
    return scope is not None and find_definition(node.id, scope, None) is not None
