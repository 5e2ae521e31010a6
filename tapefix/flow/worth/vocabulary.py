"""The words by which code asks for a gradient, and those by which it can lose one, read off its text.

A word counts where it is used: called, taken as an attribute, or handed on; not as the name of a keyword argument, of
what is assigned, or of an annotation. Erring is allowed on one side only: what is taken for a cut here may turn out
to be harmless when it is run, what is not is never looked at.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

#: asks for a gradient outright, and needs nothing else to be wrong: an unwatched source, a forward pass outside
_TAPES = frozenset({b"GradientTape"})
_ASKS = frozenset(b"minimize compile fit fit_generator train_on_batch add_loss".split())
#: `super().compile(…)` hands on what a model is given, and without a loss nothing is asked for
_ASKING = re.compile(
    rb"(?:(?<!\bre)(?<!\bsuper\(\))\.compile\s*\((?!\s*(?:\*\*|\)))|"
    rb"\.(?:minimize|fit|fit_generator|train_on_batch|add_loss)\s*\()"
)
#: names that can lose a gradient wherever they are used
CUTS = frozenset(
    b"""numpy assign assign_add assign_sub scatter_update scatter_nd_update scatter_add scatter_nd_add scatter_sub
    batch_scatter_update Variable predict predict_on_batch evaluate test_on_batch predict_classes predict_proba item
    tolist py_function numpy_function py_func eager_py_func get_weights set_weights get_value set_value eval
    convert_to_numpy from_tensor_slices from_tensors from_generator
    argmax argmin argsort arg_max arg_min top_k in_top_k round rint floor ceil sign trunc floordiv floor_div
    floor_divide one_hot to_categorical categorical multinomial stateless_categorical stateless_multinomial binomial
    stateless_binomial bernoulli random_bernoulli poisson random_poisson stateless_poisson sample stop_gradient
    bincount histogram histogram_fixed_width histogram_fixed_width_bins unique unique_with_counts count_nonzero
    searchsorted invert_permutation bucketize digitize cond case switch_case switch boolean_mask gather gather_nd take
    take_along_axis embedding_lookup moving_average_update update_add update_sub strings confusion_matrix as_string
    encode_jpeg encode_png decode_jpeg edit_distance ctc_greedy_decoder ctc_beam_search_decoder string_to_number
    setdiff1d non_max_suppression population_count saturate_cast to_int32 greater less equal not_equal
    greater_equal less_equal logical_and logical_or logical_not logical_xor where select reduce_any reduce_all is_nan
    is_inf is_finite isnan isinf isfinite approximate_equal isclose sequence_mask astype while_loop nonzero
    dynamic_partition segment_sum segment_mean segment_max unsorted_segment_sum unsorted_segment_mean
    unsorted_segment_max reverse_sequence stop_recording Accuracy Precision Recall AUC F1Score MeanIoU
    accuracy metrics slice_update scatter scatter_nd normalize""".split()
)
_METRICS = frozenset(b"Accuracy Precision Recall AUC F1Score MeanIoU accuracy metrics".split())
#: what is only watched in training
_WATCHED = re.compile(rb"metrics\s*=\s*\[[^\]]*\]")
_NUMBERS = frozenset({b"float", b"int", b"bool", b"complex"})
_NUMBER_CALL = re.compile(rb"\b(?:float|int|bool|complex)\((?!\s*[\"'\d])(?![^)\n]*(?:shape|len\(|size))")
_SOME = frozenset({b"cast", b"constant", b"mode", b"convert_image_dtype"})
_SOME_USES = re.compile(rb"\bcast\([^)]{0,200}(?:int|bool|[<>]|[!=]=)|\bconstant\((?!\s*[-\d\[(\"'])|\.mode\(", re.S)
_OPERATORS = re.compile(rb"//|\[[^\]\n]*[<>][^\]\n]*\]")

# ---- decisions

_DECISION = re.compile(rb"\b(if|while)\b")
#: plainly about flags, shapes, or None
_SETTLED = re.compile(
    rb"\blen\(|shape|ndim|rank|isinstance|hasattr|callable\(|getattr|is None|is not None|training|__name__|"
    rb"executing_eagerly|\.get\(|\.startswith|\.endswith|backend\(|[!=]=\s*[\"']|[\"']\s*(?:not\s+)?in\b"
)
#: whose outcome is a choice by value, or may be: a comparison, a negation, a call, a bare name
_BY_VALUE = re.compile(rb"[<>]|[!=]=|\bnot\b|\(")
_BARE = re.compile(rb"^\s*(?:\w+|tf\.[^\n]*)\s*$")
_OWN = re.compile(rb"\bself(?:\.\w+)+(?!\s*[\w(\[.])")
_PLAIN = re.compile(
    rb"\b(?:and|or|not|in|is|None|True|False)\b|[-+*/%]|[<>]=?|[!=]=|\d[\d.e]*|[()\[\],\s]|[\"'][^\"'\n]*[\"']"
)
#: names of flags: bound to a truth value, or by default
_FLAG = re.compile(rb"\b(\w+)\s*(?::[^=,\n()]*)?=\s*(?:True|False|[^\n=,]*\bis\s+(?:not\s+)?None)\b")
_COUNTED = re.compile(rb"\bfor\s+\(?\s*(\w+)\b[^\n:]*?\bin\s+(?:range|enumerate|tqdm|trange)\s*\(")
_CLOSING = {b"(": 1, b"[": 1, b"{": 1, b")": -1, b"]": -1, b"}": -1}
_BRACKET = re.compile(rb"[()\[\]{}]|:|\n|\belse\b")
MOST_CONDITION = 400

# ---- other libraries

OTHERS = frozenset(
    b"numpy math cmath scipy sklearn PIL cv2 pandas skimage librosa torch jax statistics h5py matplotlib".split()
)
_HARMLESS = (
    rb"\.(?:float\d*|int\d*|uint\d*|bool_?|pi|inf|nan|newaxis|ndarray|e|dtype|iinfo|finfo|generic|number|integer|"
    rb"floating|random|testing|arange|linspace|eye|errstate|seterr|set_printoptions|sqrt\(\s*[\d.]+\s*\))\b|"
    rb"prod\([^)\n]*(?:shape|dims)|\s+is\s"
)
_BUFFERS = rb"\.(?:zeros|empty|ones|full)"
_MADE_FOR_A_CALL = re.compile(rb"[(,]\s*$|[(,]\s*\w+\s*=\s*$")
_LITERAL = re.compile(rb"\.\w+\(\s*[-+\d\s.,\[\]()*e]*(?:,\s*dtype\s*=\s*[\w.\"']+\s*)?\)")
_NEVER = re.compile(rb"(?!)")


@dataclass(frozen=True)
class Away:
    """What NumPy and other libraries are called in a file."""

    names: frozenset[bytes] = frozenset()
    uses: re.Pattern[bytes] = _NEVER
    buffers: re.Pattern[bytes] = _NEVER

    @staticmethod
    def of(names: set[bytes]) -> Away:
        if not names:
            return Away()
        aliases = rb"\b(?:" + b"|".join(sorted(names)) + rb")\b"
        uses = re.compile(aliases + rb"(?!" + _HARMLESS + rb")(?!\s*[=:])")
        return Away(frozenset(names), uses, re.compile(aliases + _BUFFERS))

    def leaves(self, text: bytes) -> bool:
        """Values may leave TensorFlow here: a call that is given more than numbers, or a buffer that is kept."""
        for match in self.uses.finditer(text):
            literal = _LITERAL.match(text, match.end())
            if literal is None:
                return True
            before = text[max(0, match.start() - 40) : match.start()]
            if self.buffers.match(text, match.start()) and not _MADE_FOR_A_CALL.search(before):
                return True
        return False


NOTHING_ELSE = Away()


#: layers that are made where they are used, which is wrong in a layer's `call`
MADE_LAYERS = frozenset(
    b"""Dense Conv1D Conv2D Conv3D Conv2DTranspose Conv3DTranspose LSTM GRU SimpleRNN Bidirectional Embedding
    BatchNormalization LayerNormalization GroupNormalization MultiHeadAttention Sequential EinsumDense PReLU""".split()
)
_MADE = re.compile(rb"\b(?:" + b"|".join(sorted(MADE_LAYERS)) + rb")\(")


def makes_layers(text: bytes) -> bool:
    return bool(_MADE.search(text))


#: what losses call the truth and the prediction, in this order
TRUTHS = ("y_true", "true", "labels", "y", "target", "targets", "label")
GUESSES = ("y_pred", "pred", "y_hat", "logits", "predictions", "yhat", "prediction")
_LOSS = re.compile(
    rb"\bdef\s+\w*loss\w*\s*\(\s*(?:(?:self|cls)\s*,\s*)?(?:"
    + "|".join(TRUTHS).encode()
    + rb")\b[^,)]*,\s*(?:"
    + "|".join(GUESSES).encode()
    + rb")\b",
    re.I,
)


def looks_like_loss(text: bytes) -> bool:
    """A function defined in the text is one that Keras could be given as a loss, by its name and parameters."""
    return bool(_LOSS.search(text))


def opens_tape(names: frozenset[bytes]) -> bool:
    return not names.isdisjoint(_TAPES)


def asks(text: bytes, names: frozenset[bytes]) -> bool:
    """It asks for a gradient, or has Keras ask for one."""
    return opens_tape(names) or (not names.isdisjoint(_ASKS) and bool(_ASKING.search(text)))


def asking(text: bytes) -> bool:
    """As `asks`, of a whole file."""
    return any(word in text for word in _TAPES) or bool(_ASKING.search(text))


def cuts(text: bytes, names: frozenset[bytes], away: Away) -> bool:
    """It may lose a gradient."""
    found = names & CUTS
    if found & _METRICS:
        watching = _WATCHED.sub(b"", text)
        found = frozenset(name for name in found if name not in _METRICS or used(name).search(watching))
    return (
        any(used(name).search(text) for name in found)
        or (not names.isdisjoint(away.names) and away.leaves(text))
        or (not names.isdisjoint(_NUMBERS) and bool(_NUMBER_CALL.search(text)))
        or (not names.isdisjoint(_SOME) and bool(_SOME_USES.search(text)))
        or bool(_OPERATORS.search(text))
        or decides(text)
    )


@functools.lru_cache(maxsize=1_000)
def used(name: bytes) -> re.Pattern[bytes]:
    """The uses of a name: not as a keyword, a target of an assignment, or with an annotation."""
    return re.compile(rb"\b" + re.escape(name) + rb"\b(?!\s*(?:=(?!=)|:))")


def decides(text: bytes) -> bool:
    """An `if` or `while` may choose by the value of a tensor."""
    if b"if" not in text and b"while" not in text:
        return False
    known = frozenset(_COUNTED.findall(text)) | frozenset(_FLAG.findall(text))
    return any(_by_value(condition, known) for condition in _conditions(text))


def _by_value(condition: bytes, known: frozenset[bytes]) -> bool:
    if _SETTLED.search(condition):
        return False
    if not _BY_VALUE.search(condition) and not _BARE.match(condition):
        return False
    return any(word not in known for word in _PLAIN.sub(b" ", _OWN.sub(b" ", condition)).split())


def _conditions(text: bytes) -> Iterator[bytes]:
    """What stands behind each `if` and `while`, to its colon or its `else`."""
    for match in _DECISION.finditer(text):
        depth = 0
        start = match.end()
        for mark in _BRACKET.finditer(text, start, start + MOST_CONDITION):
            sign = mark.group()
            depth += _CLOSING.get(sign, 0)
            if depth < 0 or (depth == 0 and sign in (b":", b"\n", b"else")):
                yield text[start : mark.start()]
                break
        else:
            yield text[start : start + MOST_CONDITION]
