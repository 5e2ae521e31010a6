"""Classes of the program and their objects."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tapefix.flow.interpreter.calls import Arguments, Calls
from tapefix.flow.objects import ClassObject, Function, Instance, Layer, Method, Sequence
from tapefix.flow.values import NUMBER, UNKNOWN, Kind, Value


@dataclass(eq=False)
class Super:
    """`super()`: the rest of the method resolution order after `cls`."""

    value: Value
    cls: ClassObject
    skip: tuple[ClassObject, ...] = ()


class Objects(Calls):
    """Makes and calls objects."""

    def call_ClassObject(self, value: Value, cls: ClassObject, given: Arguments, node: ast.AST) -> Value:
        instance = Instance("", self.spot(node), cls=cls)
        made = Value(Kind.OBJECT, ref=instance, node=node)
        found = cls.find("__init__")
        fields_first = "__init__" not in cls.members and any(
            "dataclass" in ast.unparse(d) for d in cls.node.decorator_list
        )
        if found is not None and isinstance(found[1].ref, Function) and not fields_first:
            self.call_function(found[1].ref, [made, *given.args], given.keywords, node)
        elif cls.fields or cls.derives("NamedTuple"):
            names = [f for c in reversed(list(cls.mro())) for f in c.fields]
            for name, arg in zip(names, given.args):
                instance.attrs[name] = arg
            instance.attrs.update({k: v for k, v in given.keywords.items() if k in names})
            for name in names:
                if name not in instance.attrs:
                    member = cls.find(name)
                    instance.attrs[name] = self.field_default(member[1]) if member else UNKNOWN
            post = cls.find("__post_init__")
            if post is not None and isinstance(post[1].ref, Function):
                self.call_function(post[1].ref, [made], {}, node)
        elif instance.is_keras():
            self.keras_base_init(instance, given, node)
        return made

    def field_default(self, default: Value) -> Value:
        if isinstance(default.ref, Method) or default.kind == Kind.UNKNOWN:
            return Value(Kind.CONTAINER, ref=Sequence("list"))
        return default

    def keras_base_init(self, instance: Instance, given: Arguments, node: ast.AST) -> None:
        raise NotImplementedError

    def call_Instance(self, value: Value, instance: Instance, given: Arguments, node: ast.AST) -> Value:
        cls = instance.cls
        if cls is None:
            return self.carry(node, given.all, Kind.UNKNOWN)
        for name in ("__call__", "call"):
            found = cls.find(name)
            if found is None or not isinstance(found[1].ref, Function):
                continue
            if name == "call":
                self.build(value, instance, node)
            result = self.call_function(found[1].ref, [value, *given.args], given.keywords, node)
            if instance.written:
                result = self.tagged(result, instance.written)
            return result
        return self.call_library_object(value, instance, given, node)

    def build(self, value: Value, instance: Instance, node: ast.AST) -> None:
        """Keras builds a layer before its first call."""
        if instance.built or instance.cls is None:
            return
        instance.built = True
        found = instance.cls.find("build")
        if found is not None and isinstance(found[1].ref, Function):
            saved, self.tapes = self.tapes, []
            try:
                self.call_function(found[1].ref, [value, Value(Kind.SHAPE)], {}, node)
            finally:
                self.tapes = saved

    def call_library_object(self, value: Value, instance: Instance, given: Arguments, node: ast.AST) -> Value:
        """An object whose class inherits its `call` from the library, or from a class that can't be seen."""
        live = self.live_of(*given.all) | self.read_source(instance, node)
        for child in instance.attrs.values():
            if isinstance(child.ref, Layer) and child.ref.template is not None:
                live |= self.live_of(child.ref.template)
        return Value(Kind.TENSOR, live, self.lost_of(*given.all) | instance.written, node=node)

    def iterate_instance(self, value: Value, instance: Instance, node: ast.AST) -> Value:
        for name in ("__iter__", "__getitem__"):
            found = instance.cls.find(name) if instance.cls else None
            if found is not None and isinstance(found[1].ref, Function):
                args = [value] if name == "__iter__" else [value, NUMBER]
                result = self.call_function(found[1].ref, args, {}, node)
                return self.element(result, node) if name == "__iter__" and result.ref is not instance else result
        return UNKNOWN

    def call_Super(self, value: Value, ref: Super, given: Arguments, node: ast.AST) -> Value:
        return UNKNOWN

    def builtin_super(self, given: Arguments, node: ast.AST) -> Value:
        for frame in reversed(self.frames):
            if frame.self_value is not None and frame.function is not None and frame.function.owner is not None:
                instance = frame.self_value.ref
                if isinstance(instance, Instance) and instance.cls is not None:
                    skip: list[ClassObject] = []
                    for cls in instance.cls.mro():
                        skip.append(cls)
                        if cls is frame.function.owner:
                            break
                    return Value(Kind.OBJECT, ref=Super(frame.self_value, frame.function.owner, tuple(skip)))
        return UNKNOWN
