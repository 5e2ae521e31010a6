"""What the flow model tells about a program: cuts, where the lost value came from, and who wanted it.

The model knows how a gradient is lost (`How`); it knows no rule. A codemod picks the manners it speaks for.
"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field


class How(str, enum.Enum):
    """The manner in which a value goes on without its gradient."""

    # values written in place
    VARIABLE_SLICE_WRITE = "variable-slice-write"  # v[i].assign(t), v.scatter_*
    VARIABLE_WRITE = "variable-write"  # v.assign(t), assign_add, assign_sub
    VARIABLE_MADE = "variable-made"  # tf.Variable(t)
    ARRAY_WRITE = "array-write"  # a[i] = t on a NumPy array
    ARRAY_MADE = "array-made"  # np.array/stack/concatenate/append of tensors
    # values that leave TensorFlow
    TO_NUMPY = "to-numpy"  # .numpy(), K.eval, K.get_value, convert_to_numpy, .item(), .tolist()
    NUMPY_CALL = "numpy-call"  # np.* and math.* on a tensor
    PYTHON_NUMBER = "python-number"  # float(), int(), complex(), bool()
    PREDICT = "predict"  # model.predict & co
    CONSTANT = "constant"  # tf.constant(variable), tf.constant(t, shape=...)
    PY_FUNCTION = "py-function"  # tf.py_function, tf.numpy_function
    DATASET = "dataset"  # tf.data in the forward pass
    WEIGHTS_COPIED = "weights-copied"  # get_weights, set_weights, assign of computed weights
    FOREIGN_CALL = "foreign-call"  # SciPy, scikit-learn, PIL, OpenCV, pandas
    # control flow on values
    PREDICATE = "predicate"  # if, elif, ternary, early return, match
    PREDICATE_OP = "predicate-op"  # tf.cond, tf.case, tf.switch_case
    SELECTION = "selection"  # tf.where condition, boolean mask, index
    PREDICATE_LOOP = "predicate-loop"  # while on a tensor
    # operations without a gradient
    INDEX_OF = "index-of"  # argmax, argmin, argsort, top_k indices, searchsorted
    ROUNDED = "rounded"  # round, floor, ceil, sign, //
    COMPARED = "compared"  # comparisons cast to a number
    INTEGER_CAST = "integer-cast"
    ONE_HOT = "one-hot"
    SAMPLED = "sampled"
    STOPPED = "stopped"  # stop_gradient
    COUNTED = "counted"  # bincount, unique, histogram, count_nonzero, string operations
    METRIC = "metric"  # accuracy, F1, keras.metrics
    # the tape
    UNWATCHED = "unwatched"
    OUTSIDE_TAPE = "outside-tape"
    AFTER_TAPE = "after-tape"  # made after the tape's block has ended
    DERIVED_OUTSIDE = "derived-outside"  # a derivative that is differentiated again, taken outside the outer tape
    NOT_RECORDED = "not-recorded"  # inside stop_recording
    TAPE_SPENT = "tape-spent"  # asked again, and not persistent
    INTEGER_SOURCE = "integer-source"
    UNTRACKED = "untracked"
    DROPPED = "dropped"  # the output of a layer is not read
    ALL_WEIGHTS = "all-weights"  # model.variables as sources: also what is never trained
    # the sources
    REBOUND = "rebound"  # a Variable's name is given a tensor
    TEACHER = "trainable-teacher"  # stopped on purpose, and trainable
    UNRELATED = "unrelated-sources"  # the loss does not depend on them
    NOT_BUILT = "not-built"  # weights listed before there are any
    MADE_ANEW = "made-anew"  # a layer or Variable that each call makes anew
    WRONG_PAIRS = "wrong-pairs"  # an optimizer that is given the wrong things


@dataclass(frozen=True)
class Spot:
    """A place in the program: the syntax node, the file it is in, and the function around it."""

    filename: str
    node: ast.AST
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None = None


class Manner:
    """How a tape misses a source: what the detail of an `UNWATCHED` cut says."""

    NOT_TOLD = "not watched"
    TOO_LATE = "watched too late"
    ANOTHER = "another value is read"
    BY_HAND = "by hand"


@dataclass(frozen=True)
class Origin:
    """What a gradient is wanted for: a weight, a layer's or model's weights, a watched tensor."""

    name: str  # as a person would say it: `self.cell`, `w`, `generator`
    spot: Spot | None


@dataclass(frozen=True)
class Target:
    """What is differentiated: the target of `tape.gradient`, a loss given to Keras, what `call` returns."""

    spot: Spot
    what: str  # "gradient", "loss", "add_loss", "call", "minimize"


class Role(str, enum.Enum):
    MADE = "made"  # the expression that makes the buffer
    WRITE = "write"  # buf[i] = x, buf[i] += x, buf[i].assign(x), buf.assign(x), buf.fill(x)
    READ = "read"  # any other use


@dataclass(frozen=True)
class Use:
    """One use of a buffer. `node` is the expression that stands for the buffer itself (a name, an attribute, ...)."""

    role: Role
    spot: Spot  # of `node`
    statement: ast.stmt  # the statement around it
    carries: bool  # writes: the written value depends on a source; reads: so does what is read


@dataclass(eq=False)
class Buffer:
    """A Variable or NumPy array that is made once and filled: where it is made, written and read."""

    maker: str  # "numpy" | "variable"
    made: Spot  # the call that makes it
    uses: list[Use] = field(default_factory=list)
    escapes: str = ""  # why not every use is known, if so

    def add(self, use: Use) -> None:
        """Keeps one use a node; a write is told by the write, not by the read of the name in it."""
        for i, known in enumerate(self.uses):
            if known.spot.node is use.spot.node:
                if use.role is Role.WRITE or (known.role is use.role and use.carries):
                    self.uses[i] = use
                return
        self.uses.append(use)

    @property
    def writes(self) -> list[Use]:
        return [use for use in self.uses if use.role is Role.WRITE]

    @property
    def reads(self) -> list[Use]:
        return [use for use in self.uses if use.role is Role.READ]


@dataclass(eq=False)
class Cut:
    """A value that depends on a source goes on without its gradient here, and reaches a target."""

    how: How
    spot: Spot  # the statement or expression where the gradient is lost
    detail: str = ""  # the operation as written: `np.mean`, `.numpy()`, `>`
    origins: tuple[Origin, ...] = ()
    targets: list[Target] = field(default_factory=list)
    partial: bool = False  # the origins still have another path to the target
    scale: bool = False  # it only shifts or scales the value that it was taken from: perhaps detached on purpose
    buffer: Buffer | None = None  # writes: what is written into
    lost: tuple[ast.expr, ...] = ()  # the expressions whose gradient is lost
