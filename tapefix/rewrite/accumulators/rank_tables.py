"""What operations and layers do to the number of axes, by the last part of their name.

The names that TensorFlow, NumPy and Keras share mean the same in each where they stand in one table.
"""

from __future__ import annotations

REDUCTIONS = {
    "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp", "reduce_std",
    "reduce_variance", "reduce_any", "reduce_all", "reduce_euclidean_norm", "norm", "mean", "sum", "max", "min", "prod",
    "std", "var", "logsumexp", "argmax", "argmin",
}  # fmt: skip
SAME_RANK = {
    "relu", "sigmoid", "tanh", "softmax", "log_softmax", "softplus", "exp", "log", "sqrt", "square", "abs", "negative",
    "sin", "cos", "elu", "selu", "gelu", "identity", "cast", "stop_gradient", "clip_by_value", "zeros_like",
    "ones_like", "cumsum", "reverse", "sign", "round", "floor", "convert_to_tensor", "dropout", "leaky_relu", "log1p",
    "expm1", "sort", "l2_normalize", "erf", "constant", "ensure_shape", "Variable",
}  # fmt: skip
#: the same for what else keeps the axes of its first argument
FIRST_OPERAND = {
    "array", "asarray", "float32", "float64", "transpose", "tile", "pad", "roll", "repeat", "boolean_mask", "relu6",
    "tan", "sinh", "cosh", "swish", "silu", "rsqrt", "reciprocal", "cumprod", "clip", "copy", "flip", "astype", "tril",
    "triu", "inverse", "inv", "cholesky", "expm", "zeros_initializer", "variable", "nan_to_num", "ascontiguousarray",
    "layer_normalization", "mish", "hard_sigmoid", "log_sigmoid", "softsign", "lgamma", "digamma", "unstack",
}  # fmt: skip
#: what gives the element type of its first argument
SAME_TYPE = (SAME_RANK | REDUCTIONS | {
    "reshape", "transpose", "tile", "pad", "roll", "repeat", "gather", "expand_dims", "squeeze", "broadcast_to",
    "boolean_mask", "matmul", "matvec", "tensordot", "maximum", "minimum", "add", "multiply", "subtract", "pow",
    "divide", "flip", "copy", "clip", "slice",
}) - {"argmax", "argmin", "reduce_any", "reduce_all"}  # fmt: skip
BROADCAST = {
    "maximum", "minimum", "add", "multiply", "subtract", "pow", "divide", "truediv", "squared_difference", "power",
    "logical_and", "logical_or", "divide_no_nan", "atan2", "floormod", "mod", "multiply_no_nan", "xlogy", "lerp",
}  # fmt: skip
SHAPED = {
    "zeros", "ones", "fill", "full", "normal", "uniform", "truncated_normal", "empty", "random", "standard_normal",
}  # fmt: skip
FIXED = {"eye": 2, "linspace": 1, "arange": 1, "range": 1, "outer": 2}
LAYERS_SAME = {
    "Dense", "Dropout", "BatchNormalization", "LayerNormalization", "Activation", "LeakyReLU", "ReLU", "Softmax",
    "PReLU", "ELU", "GaussianNoise", "GaussianDropout", "GroupNormalization", "UnitNormalization", "SpatialDropout1D",
    "MultiHeadAttention", "AlphaDropout", "Rescaling", "Masking", "ActivityRegularization",
}  # fmt: skip
LAYERS = {
    "Flatten": 2, "GlobalAveragePooling1D": 2, "GlobalMaxPooling1D": 2, "GlobalAveragePooling2D": 2,
    "GlobalMaxPooling2D": 2, "GlobalAveragePooling3D": 2, "GlobalMaxPooling3D": 2, "RepeatVector": 3,
    "Conv1D": 3, "Conv2D": 4, "Conv3D": 5, "Conv1DTranspose": 3, "Conv2DTranspose": 4, "SeparableConv1D": 3,
    "SeparableConv2D": 4, "DepthwiseConv2D": 4, "MaxPooling1D": 3, "MaxPooling2D": 4, "AveragePooling1D": 3,
    "AveragePooling2D": 4, "UpSampling1D": 3, "UpSampling2D": 4, "ZeroPadding2D": 4, "Cropping2D": 4,
}  # fmt: skip
RECURRENT = {"LSTM", "GRU", "SimpleRNN"}
