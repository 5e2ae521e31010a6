"""What names tell: calls that give no value, calls that make weights, attributes that are settings."""

from __future__ import annotations

from tapefix.flow.libraries.operations import (
    COMPARISONS,
    LAYERS_THAT_LOOK_UP,
    NO_VALUE,
    NUMPY_SHAPE_ONLY,
    SELECTING,
    SHAPE_ONLY,
)
from tapefix.flow.worth.outline import TELLING
from tapefix.flow.worth.vocabulary import CUTS, MADE_LAYERS

#: attributes that are settings of a layer or the form of a tensor
SETTINGS = frozenset(
    """shape dtype ndim name rank device size training built input_spec units filters rate axis trainable compute_dtype
    variable_dtype dtype_policy data_format input_shape output_shape graph op num_heads padding strides kernel_size
    dilation_rate supports_masking __name__ __class__ __dict__ __doc__""".split()
)
TELLING_METHODS = frozenset(name.decode() for name in TELLING)
#: calls that give no value on
PLAIN_CALLS = (SHAPE_ONLY | NO_VALUE | NUMPY_SHAPE_ONLY | TELLING_METHODS) - {"range", "super"} | frozenset(
    "static_shape is_sparse get_shape backend as_list assert_shapes warn warning".split()
)
#: beginnings of methods that answer a question about an object
QUESTIONS = ("is_", "has_", "num_", "supports_", "should_", "_is_", "_has_", "_should_")
NUMBERS = frozenset({"float", "int", "bool", "complex"})
#: attributes by which an object shows that it is a model
WEIGHTS = frozenset(
    """trainable_variables trainable_weights variables weights non_trainable_variables non_trainable_weights
    losses""".split()
)
#: attributes of layers that are weights
WEIGHT_NAMES = frozenset(
    "kernel bias embeddings embedding gamma beta weight w b moving_mean moving_variance alpha".split()
)
#: methods by which an object shows that it is a model
MODEL_METHODS = frozenset(
    "compile fit fit_generator train_on_batch predict predict_on_batch evaluate get_layer build summary".split()
)
MAKES_WEIGHTS = frozenset("variable Variable add_weight add_variable get_variable ResourceVariable".split())
MAKES_LAYERS = frozenset(name.decode() for name in MADE_LAYERS)
#: they lose a gradient wherever they are called; comparisons and selections are looked at more closely
LOSES = frozenset(name.decode() for name in CUTS) - COMPARISONS - SELECTING.keys() | {"update_state"}
#: they lose one by the type they are asked for, or in some of their meanings
MAY_LOSE = frozenset({"cast", "constant", "mode", "convert_image_dtype"})
#: layers whose input is an index
LOOK_UP = LAYERS_THAT_LOOK_UP - {"Embedding"}
#: what comes of chance chooses as a tensor does
RANDOM = frozenset("rand randn random uniform normal randint choice truncated_normal bernoulli random_uniform".split())
#: methods of datasets that run a function outside every tape
DATASETS_RUN = frozenset("map flat_map interleave filter reduce scan from_generator".split())
WRITES = frozenset("assign assign_add assign_sub set_weights set_value update_add update_sub update".split())
#: what they are given is run some other time, on something that carries a gradient
RUN_LATER = frozenset(
    "compile add_loss partial Lambda minimize apply wrap_function function custom_gradient LambdaCallback".split()
)
CALLS = ("call", "__call__")
MAKING = frozenset({"__init__", "build", "__post_init__", "setup"})
