"""The ladder on generated programs, against the same program written with `tf.tensor_scatter_nd_update`.

A recipe says how a buffer is made, filled and read. It is written out twice: in place, as a person would, and as a
reference in which each write makes a new tensor. The rewritten program must give the value of the first and the
gradient of the second.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from accumulator_programs import rewritten  # noqa: E402

EXAMPLES = 60


@dataclass(frozen=True)
class Recipe:
    """A buffer of `shape`, written along `axes` by nested loops; `reads` use it when it is full."""

    library: str  # "numpy" | "variable"
    content: str  # "zeros" | "ones" | "full"
    shape: tuple[int, ...]
    written_dtype: str  # "" | "float32" | "float64"
    source_dtype: str
    axes: tuple[int, ...]
    headers: tuple[str, ...]  # the loops, with the names i0, i1
    operation: str  # "=" | "+="
    back: str  # what the value reads of the buffer itself: "" or a position of the first written axis
    condition: str
    early: str  # "" | "continue"
    value: str
    twice: bool
    inside: bool  # the whole is read at the end of each pass of the outer loop
    reads: tuple[str, ...]

    @property
    def dtype(self) -> str:
        """The type of the values the buffer ends up with in the reference."""
        return self.source_dtype

    def index(self, first: str | None = None) -> str:
        """The subscript of a write, or of a read at `first` instead of i0."""
        names = [f"i{k}" for k in range(len(self.axes))]
        if first is not None:
            names[0] = first
        if len(self.axes) > 1 or self.axes == (0,):
            return ", ".join(names)
        return ", ".join([":"] * self.axes[0] + names)

    def in_place(self) -> str:
        lines = ["def forward(x):", f"    buf = {self.maker()}", "    seen = 0.0"]
        lines += self.loops(self.write_in_place)
        return "\n".join([*lines, f"    return seen + {' + '.join(self.reads)}", ""])

    def reference(self) -> str:
        fill = {"zeros": 0.0, "ones": 1.0, "full": 1.5}[self.content]
        lines = [
            "def forward(x):",
            f"    buf = tf.cast(tf.fill({list(self.shape)}, {fill}), tf.{self.dtype})",
            "    seen = 0.0",
        ]
        lines += self.loops(self.write_reference)
        reads = [_as_tensor_read(read) for read in self.reads]
        return "\n".join([*lines, f"    return seen + {' + '.join(reads)}", ""])

    def maker(self) -> str:
        dtype = f", dtype=np.{self.written_dtype}" if self.written_dtype else ""
        shape = repr(self.shape)
        number = ", 1.5" if self.content == "full" else ""
        if self.library == "numpy":
            return f"np.{self.content}({shape}{number}{dtype})"
        call = "fill" if self.content == "full" else self.content
        return f"tf.Variable(tf.cast(tf.{call}({shape}{number}), tf.{self.source_dtype}))"

    def loops(self, write: Callable[[], list[str]]) -> list[str]:
        lines: list[str] = []
        pad = "    "
        for depth, header in enumerate(self.headers):
            if header.startswith("while"):
                lines.append(f"{pad}i{depth} = 0")
            lines.append(f"{pad}{header}")
            pad += "    "
        if self.condition:
            if self.early:
                lines += [f"{pad}if not ({self.condition}):", f"{pad}    continue"]
            else:
                lines.append(f"{pad}if {self.condition}:")
                pad += "    "
        for _ in range(1 + self.twice):
            lines += [pad + line for line in write()]
        if self.condition and not self.early:
            pad = pad[4:]
        if self.headers[-1].startswith("while"):
            lines.append(f"{pad}i{len(self.headers) - 1} += 1")
        if self.inside:
            lines.append(f"        seen += tf.cast(tf.reduce_sum(tf.square(buf)), tf.{self.dtype})")
        return lines

    def written_value(self) -> str:
        value = self.value.format(x=f"x[{self.index()}]")
        return f"{value} + 0.5 * buf[{self.index(self.back)}]" if self.back else value

    def write_in_place(self) -> list[str]:
        target = f"buf[{self.index()}]"
        if self.library == "numpy":
            return [f"{target} {self.operation} {self.written_value()}"]
        value = f"{target} + {self.written_value()}" if self.operation == "+=" else self.written_value()
        return [f"{target}.assign({value})"]

    def write_reference(self) -> list[str]:
        value = self.written_value()
        if self.operation == "+=":
            value = f"buf[{self.index()}] + {value}"
        lines = [f"value = tf.cast({value}, buf.dtype)"]
        if len(self.axes) > 1 or self.axes == (0,):
            index = ", ".join(f"i{k}" for k in range(len(self.axes)))
            lines.append(f"value = tf.broadcast_to(value, buf[{self.index()}].shape)")
            return [*lines, f"buf = tf.tensor_scatter_nd_update(buf, [[{index}]], [value])"]
        order = [self.axes[0], *(a for a in range(len(self.shape)) if a != self.axes[0])]
        back = [order.index(a) for a in range(len(order))]
        lines.append(f"value = tf.broadcast_to(value, buf[{self.index()}].shape)")
        turned = f"tf.tensor_scatter_nd_update(tf.transpose(buf, {order}), [[i0]], [value])"
        return [*lines, f"buf = tf.transpose({turned}, {back})"]


def _as_tensor_read(read: str) -> str:
    return (
        read.replace("buf.T", "tf.transpose(buf)")
        .replace("buf.sum()", "tf.reduce_sum(buf)")
        .replace("buf.mean(axis=0)", "tf.reduce_mean(buf, axis=0)")
        .replace("buf.value()", "buf")
        .replace("buf.reshape(-1)", "tf.reshape(buf, [-1])")
    )


def headers(size: int, depth: int) -> st.SearchStrategy[str]:
    name = f"i{depth}"
    forms = [
        f"for {name} in range({size}):",
        f"for {name} in reversed(range({size})):",
        f"for {name} in range({size - 1}, -1, -1):",
        f"for {name} in range(1, {size}):",
        f"for {name} in range(0, {size}, 2):",
        f"for {name} in {list(range(size))[::-1]}:",
        f"for {name}, row in enumerate(range({size})):",
    ]
    return st.sampled_from(forms)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    library = draw(st.sampled_from(["numpy", "numpy", "variable"]))
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3).map(tuple))
    leading = draw(st.integers(1, min(2, len(shape))))
    axes = draw(st.sampled_from([tuple(range(leading)), (draw(st.integers(0, len(shape) - 1)),)]))
    source = draw(st.sampled_from(["float32", "float32", "float64"]))
    written = draw(st.sampled_from(["", "float32", "float64"])) if library == "numpy" else ""
    loops = [draw(headers(shape[axis], depth)) for depth, axis in enumerate(axes)]
    condition = draw(st.sampled_from(["", "", "", "i0 % 2 == 0", "i0 > 0"]))
    early = draw(st.sampled_from(["", "continue"])) if condition else ""
    if len(axes) == 1 and draw(st.booleans()) and not early:
        loops = [*loops[:-1], f"while i{len(axes) - 1} < {shape[axes[-1]]}:"]
    back = draw(st.sampled_from(["", "", "i0", f"(i0 + 1) % {shape[axes[0]]}", "i0 - 1", "0"]))
    reads = draw(
        st.lists(
            st.sampled_from(
                [
                    "tf.reduce_sum(tf.square(buf))",
                    "tf.reduce_sum(tf.sin(buf[1:]))",
                    "tf.reduce_sum(tf.square(buf[-1]))",
                    "tf.reduce_sum(tf.square(buf.T)[0])" if library == "numpy" else "tf.reduce_sum(buf)",
                    "buf.sum()" if library == "numpy" else "tf.reduce_sum(tf.exp(buf))",
                    "tf.reduce_sum(tf.square(buf.mean(axis=0)))" if library == "numpy" else "tf.reduce_sum(buf[:1])",
                    "tf.square(buf.reshape(-1)[1])" if library == "numpy" else "tf.reduce_sum(buf.value())",
                    "float(buf.shape[0])",
                    "float(len(buf))" if library == "numpy" else "1.0",
                ]
            ),
            min_size=1,
            max_size=3,
        )
    )
    reads = [f"tf.cast({read}, tf.{source})" for read in reads]
    return Recipe(
        library=library,
        content=draw(st.sampled_from(["zeros", "ones", "full"])),
        shape=shape,
        written_dtype=written,
        source_dtype=source,
        axes=axes,
        headers=tuple(loops),
        operation=draw(st.sampled_from(["=", "=", "+="])),
        back=back,
        condition=condition,
        early=early,
        value=draw(st.sampled_from(["tf.sin({x})", "{x} * {x}", "tf.reduce_sum({x})", "tf.exp({x}) * (i0 + 1.0)"])),
        twice=draw(st.sampled_from([False, False, True])),
        inside=draw(st.sampled_from([False, False, True])),
        reads=tuple(reads),
    )


def run(text: str, x: np.ndarray) -> tuple[float, np.ndarray | None]:
    space: dict[str, object] = {"tf": tf, "np": np}
    exec(compile(text, "program.py", "exec"), space)
    source = tf.Variable(x)
    with tf.GradientTape() as tape:
        value = space["forward"](tf.identity(source))  # type: ignore[operator]
    gradient = tape.gradient(value, source)
    return float(value), None if gradient is None else tf.convert_to_tensor(gradient).numpy()


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
@given(recipes())
def test_rewritten_programs_keep_their_value_and_have_the_references_gradient(recipe: Recipe) -> None:
    program = "import numpy as np\nimport tensorflow as tf\n\n\n" + recipe.in_place()
    x = np.random.default_rng(1).uniform(0.2, 1.0, recipe.shape).astype(recipe.source_dtype)
    value, _ = run(program, x)
    wanted_value, wanted = run(recipe.reference(), x)
    after, refusals = rewritten(program)
    assert not refusals, (program, refusals)
    ast.parse(after)
    assert rewritten(after) == (after, [])
    new_value, gradient = run(after, x)
    assert new_value == pytest.approx(value, rel=2e-5, abs=1e-5), after
    assert new_value == pytest.approx(wanted_value, rel=2e-5, abs=1e-5), after
    if gradient is None:  # only slots that were never written are read
        assert wanted is None or not wanted.any(), after
        return
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5, err_msg=after)
