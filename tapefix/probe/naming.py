"""Names variables and tensors as their author would: `encoder`, `self.cell`, `params[2]`.

A variable belongs to the smallest thing that the user's code has a name for: a layer or model in a name or an
attribute, else a list or dict, else the name of the variable itself.
"""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .frames import UserCode

_DEPTH = 3  # how many attributes deep a name may be: self.model.encoder
_MANY = 64  # items of one container that are looked at
_LIMIT = 5000  # objects looked at for one gradient call
_KERAS_OWN = frozenset(  # where Keras keeps what the user has assigned to attributes of their own
    "_layers _operations _nodes _metrics _variables _trainable_variables _non_trainable_variables _seed_generators "
    "_trainable_weights _non_trainable_weights _tracker _inbound_nodes _outbound_nodes _functional optimizer "
    "_operations_by_depth _nodes_by_depth _losses _callable_losses _optimizer_variables".split()
)


class Name(NamedTuple):
    """A variable's own name and that of its owner."""

    name: str
    owner: str


class _Candidate(NamedTuple):
    rank: int  # 0 layer or model, 1 list or dict, 2 the variable itself
    size: int  # variables that the owner holds
    length: int
    order: int  # innermost frame first
    owner: str
    name: str


def own_name(variable: Any, index: int = 0) -> str:
    """`dense/kernel` for a Keras variable; `#3` for what has no name."""
    name = getattr(variable, "path", None)
    if not isinstance(name, str) or not name:
        try:
            name = variable.name  # raises for an eager tensor
        except Exception:
            name = None
    if not isinstance(name, str) or not name:
        return f"#{index}"
    return "/".join(name.split(":")[0].split("/")[-2:])


def key_of(thing: Any) -> int:
    """One key for a Keras 3 variable and the TensorFlow variable inside it."""
    inner = getattr(thing, "_value", None)
    return id(inner) if inner is not None and hasattr(inner, "assign") else id(thing)


def _is_variable(thing: Any) -> bool:
    return hasattr(thing, "assign") and hasattr(thing, "dtype") and not isinstance(thing, type)


def _is_module(thing: Any) -> bool:
    return hasattr(type(thing), "trainable_variables") and not isinstance(thing, type)


def _variables(module: Any) -> List[Any]:
    try:
        return list(getattr(module, "weights", None) or module.variables)
    except Exception:  # not built, or a property of the user's that fails
        return []


class _Walk:
    """Collects every name by which the user's frames reach the wanted objects."""

    def __init__(self, wanted: Dict[int, List[_Candidate]], code: UserCode) -> None:
        self.wanted = wanted
        self.code = code
        self.seen: Dict[Tuple[int, int], bool] = {}
        self.order = 0
        self.left = _LIMIT

    def visit(self, thing: Any, name: str, depth: int, rank: int = 2) -> None:
        self.left -= 1
        if self.left < 0 or thing is None or isinstance(thing, (str, bytes, int, float, type, ModuleType)):
            return
        key = key_of(thing)
        if key in self.wanted:
            self._add(key, rank, 1, name, name)
        if _is_variable(thing) or (id(thing), self.order) in self.seen:
            return
        self.seen[(id(thing), self.order)] = True
        if isinstance(thing, (list, tuple, dict)):
            self._container(thing, name, depth)
        elif _is_module(thing):
            held = _variables(thing)
            for variable in held:
                if key_of(variable) in self.wanted:
                    self._add(key_of(variable), 0, len(held), name, own_name(variable))
        if self._is_users(thing):
            self._attributes(thing, name, depth)

    def _container(self, thing: Any, name: str, depth: int) -> None:
        pairs: Iterator[Tuple[Any, Any]] = iter(thing.items()) if isinstance(thing, dict) else enumerate(thing)
        for index, (key, item) in enumerate(pairs):
            if index >= _MANY:
                break
            self.visit(item, f"{name}[{key!r}]", depth, rank=1)

    def _attributes(self, thing: Any, name: str, depth: int) -> None:
        if depth <= 0:
            return
        for attribute, value in list(getattr(thing, "__dict__", {}).items()):
            if attribute not in _KERAS_OWN and not attribute.startswith("_self_"):
                self.visit(value, f"{name}.{attribute}", depth - 1)

    def _is_users(self, thing: Any) -> bool:
        module = sys.modules.get(type(thing).__module__)
        return bool(self.code.owns(getattr(module, "__file__", None) or "")) and hasattr(thing, "__dict__")

    def _add(self, key: int, rank: int, size: int, owner: str, name: str) -> None:
        self.wanted[key].append(_Candidate(rank, size, len(owner), self.order, owner, name))


def name_sources(sources: Sequence[Any], frame: Optional[FrameType], code: UserCode) -> List[Name]:
    """A name for each source of a gradient call, from what the user's frames below `frame` hold."""
    wanted: Dict[int, List[_Candidate]] = {key_of(source): [] for source in sources}
    walk = _Walk(wanted, code)
    spaces: List[Dict[str, Any]] = []
    outer: Optional[Dict[str, Any]] = None
    while frame is not None:
        if code.owns(frame.f_code.co_filename):
            outer = frame.f_globals
            if frame.f_locals is not outer:
                spaces.append(dict(frame.f_locals))
        frame = frame.f_back
    if outer is not None:
        spaces.append(dict(outer))
    for walk.order, space in enumerate(spaces):
        for name, thing in space.items():
            if not name.startswith("__"):
                walk.visit(thing, name, _DEPTH - 1)
    return [_choose(wanted[key_of(source)], source, index) for index, source in enumerate(sources)]


def _choose(candidates: List[_Candidate], source: Any, index: int) -> Name:
    if not candidates:
        name = own_name(source, index)
        return Name(name, name.split("/")[0])
    best = min(candidates)
    return Name(best.name, best.owner)
