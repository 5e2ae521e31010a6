"""What TensorFlow's, Keras's and NumPy's operations do to a gradient, by name.

Facts measured on TensorFlow 2.21 with Keras 3.15; an operation that is not listed carries the gradient of all its
arguments, as most do. Names are the last part of the dotted name unless a row gives more.
"""

from __future__ import annotations

from tapefix.flow.facts import How

#: nothing of the values goes on, only their form
SHAPE_ONLY = frozenset(
    """shape size rank shape_n ndim zeros_like ones_like zeros ones fill range eye is_tensor is_keras_tensor
    executing_eagerly int_shape floatx epsilon get_static_value dtype broadcast_static_shape
    broadcast_dynamic_shape empty_like linspace
    assert_equal assert_greater assert_less assert_rank Assert print print_tensor check_numerics_off get_logger
    name_scope device random_normal_initializer""".split()
) - {"linspace", "fill"}

INDEX_OF = frozenset("argmax argmin argsort arg_max arg_min searchsorted invert_permutation bucketize digitize".split())
ROUNDED = frozenset(
    "round rint floor ceil sign trunc floordiv floor_div floor_divide quantize_and_dequantize_off".split()
)
COMPARISONS = frozenset(
    """greater greater_equal less less_equal equal not_equal logical_and logical_or logical_not logical_xor is_nan
    is_inf is_finite isnan isinf isfinite reduce_any reduce_all in_top_k approximate_equal is_non_decreasing
    is_strictly_increasing isclose any all sequence_mask allclose""".split()
)
#: whether a value is one that stands for padding, or none at all: no threshold that moves with the weights
EQUALITIES = frozenset("equal not_equal is_nan is_inf is_finite isnan isinf isfinite".split())
COUNTED = frozenset(
    """bincount histogram_fixed_width histogram_fixed_width_bins count_nonzero unique unique_with_counts
    confusion_matrix as_string encode_jpeg encode_png decode_jpeg decode_png edit_distance ctc_greedy_decoder
    ctc_beam_search_decoder histogram string_to_number to_number format lower upper split_off setdiff1d
    non_max_suppression encode_base64 population_count adjust_jpeg_quality""".split()
)
SAMPLED = frozenset(
    """categorical multinomial stateless_categorical stateless_multinomial poisson random_poisson stateless_poisson
    random_binomial binomial stateless_binomial stateless_random_binomial bernoulli random_bernoulli
    shuffle_off""".split()
)
#: (operation, argument positions and names that only select)
SELECTING = {
    "gather": (1, "indices"),
    "gather_nd": (1, "indices"),
    "take": (1, "indices"),
    "take_along_axis": (1, "indices"),
    "embedding_lookup": (1, "ids"),
    "embedding_lookup_sparse": (1, "sp_ids"),
    "boolean_mask": (1, "mask"),
    "where": (0, "condition"),
    "select": (0, "condition"),
    "switch": (0, "condition"),
    "tensor_scatter_nd_update": (1, "indices"),
    "tensor_scatter_nd_add": (1, "indices"),
    "tensor_scatter_nd_sub": (1, "indices"),
    "scatter_nd": (0, "indices"),
    "scatter": (0, "indices"),
    "scatter_update": (1, "indices"),
    "slice_update": (1, "start_indices"),
    "dynamic_partition": (1, "partitions"),
    "segment_sum": (1, "segment_ids"),
    "segment_mean": (1, "segment_ids"),
    "segment_max": (1, "segment_ids"),
    "unsorted_segment_sum": (1, "segment_ids"),
    "unsorted_segment_mean": (1, "segment_ids"),
    "unsorted_segment_max": (1, "segment_ids"),
    "reverse_sequence": (1, "seq_lengths"),
    "repeat": (1, "repeats"),
    "SparseTensor": (0, "indices"),
    "from_row_lengths": (1, "row_lengths"),
    "from_row_splits": (1, "row_splits"),
    "from_row_starts": (1, "row_starts"),
    "from_row_limits": (1, "row_limits"),
    "from_value_rowids": (1, "value_rowids"),
}
#: the first argument is a label: a value that was detached there was detached on purpose
LABELLED_TAILS = (
    "crossentropy", "cross_entropy", "cross_entropy_with_logits", "_error", "Crossentropy", "Error", "mse", "mae",
    "mape",
    "hinge", "Hinge", "Huber", "huber", "KLDivergence", "kl_divergence", "cosine_similarity", "CosineSimilarity",
    "kld",     "poisson_loss", "log_cosh", "LogCosh", "logcosh", "squared_difference", "huber_loss",
    "mean_squared_error", "Poisson",
)  # fmt: skip
#: calls whose arguments only tell a number, a text or a place
NO_VALUE = frozenset(
    """print len isinstance issubclass type hasattr callable id repr str format hash range input open super
    vars dir globals locals iter_off""".split()
)

#: methods of containers, texts and settings: an unknown object that has them is no model
PLAIN_METHODS = frozenset(
    """get keys items values index pop update setdefault copy format split join strip startswith endswith lower upper
    append extend insert remove sort reverse count clear add discard init log info warning debug error read write close
    open exists reset sample_batch next""".split()
)
PLAIN_PREFIXES = ("get_", "set_", "is_", "has_", "num_", "make_", "create_", "build_", "load_", "save_")

LAYERS_WITHOUT_WEIGHTS = frozenset(
    """Input InputLayer Flatten Reshape Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D Activation ReLU
    LeakyReLU Softmax ELU ThresholdedReLU Add Subtract Multiply Average Maximum Minimum Concatenate Dot Permute
    RepeatVector Masking GaussianNoise GaussianDropout AlphaDropout ActivityRegularization Lambda Rescaling
    Normalization Resizing CenterCrop MaxPooling1D MaxPooling2D MaxPooling3D MaxPool1D MaxPool2D MaxPool3D
    AveragePooling1D AveragePooling2D AveragePooling3D AvgPool1D AvgPool2D AvgPool3D GlobalAveragePooling1D
    GlobalAveragePooling2D GlobalAveragePooling3D GlobalAvgPool1D GlobalAvgPool2D GlobalMaxPooling1D
    GlobalMaxPooling2D GlobalMaxPooling3D GlobalMaxPool1D GlobalMaxPool2D ZeroPadding1D ZeroPadding2D ZeroPadding3D
    Cropping1D Cropping2D Cropping3D UpSampling1D UpSampling2D UpSampling3D RandomFlip RandomRotation RandomZoom
    RandomCrop RandomTranslation RandomContrast RandomBrightness RandomHeight RandomWidth Discretization
    CategoryEncoding Hashing StringLookup IntegerLookup TextVectorization HashedCrossing UnitNormalization Identity
    Pipeline""".split()
)
#: hold weights that no gradient reaches
LAYERS_WITH_STATISTICS = frozenset({"BatchNormalization", "Normalization", "SpectralNormalization"})
#: hold the state of their random numbers (Keras 3)
LAYERS_WITH_SEEDS = frozenset(
    """Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D GaussianNoise GaussianDropout AlphaDropout RandomFlip
    RandomRotation RandomZoom RandomCrop RandomTranslation RandomContrast RandomBrightness""".split()
)
#: their input is an index
LAYERS_THAT_LOOK_UP = frozenset(
    """Embedding Discretization CategoryEncoding Hashing StringLookup IntegerLookup TextVectorization
    HashedCrossing""".split()
)
WRAPPERS = frozenset(
    "TimeDistributed Bidirectional RNN StackedRNNCells SpectralNormalization WeightNormalization Wrapper".split()
)

PREDICTING = frozenset(
    "predict predict_on_batch evaluate test_on_batch predict_step_off predict_classes predict_proba".split()
)
#: functions, though they are written like classes
LOSS_ABBREVIATIONS = frozenset({"MSE", "MAE", "MAPE", "MSLE", "KLD"})
METRIC_FUNCTIONS = (
    "accuracy",
    "Accuracy",
    "precision",
    "Precision",
    "recall",
    "Recall",
    "AUC",
    "F1Score",
    "MeanIoU",
    "IoU",
    "top_k",
)

#: NumPy: nothing of the values goes on
NUMPY_SHAPE_ONLY = frozenset(
    """shape ndim size zeros_like ones_like empty_like full_like array_equal allclose isscalar iscomplexobj result_type
    dtype can_cast printoptions set_printoptions save savez savez_compressed savetxt load seterr errstate finfo iinfo
    may_share_memory shares_memory broadcast_shapes array2string array_repr array_str""".split()
)
NUMPY_BUFFERS = frozenset("zeros empty ones full zeros_like empty_like ones_like full_like eye identity".split())
#: functions, and methods of arrays, that give another view of the same numbers
NUMPY_VIEWS = frozenset(
    """ravel reshape view transpose swapaxes moveaxis rollaxis squeeze expand_dims atleast_1d atleast_2d atleast_3d
    asarray asanyarray flip flipud fliplr rot90 nditer split array_split hsplit vsplit""".split()
)
NUMPY_MAKERS = frozenset(
    """array asarray asanyarray ascontiguousarray stack vstack hstack dstack column_stack row_stack concatenate append
    block fromiter insert""".split()
)
#: NumPy functions whose result is no longer a smooth number
NUMPY_INDEX = frozenset(
    """argmax argmin argsort argwhere nonzero flatnonzero where searchsorted digitize lexsort argpartition sign round
    rint floor ceil trunc unique bincount histogram greater less equal not_equal greater_equal less_equal isnan isinf
    isfinite any all isin in1d logical_and logical_or logical_not count_nonzero random choice allclose""".split()
)
#: methods that only ndarrays have, so that a tensor there raises
NDARRAY_ONLY = frozenset(
    """astype reshape mean sum copy flatten ravel max min std var dot transpose tolist item conj conjugate argmax argmin
    cumsum cumprod squeeze round any all fill clip prod repeat swapaxes argsort sort trace diagonal take nonzero
    ptp real imag T size""".split()
)

HOW_OF = {
    **dict.fromkeys(INDEX_OF, How.INDEX_OF),
    **dict.fromkeys(ROUNDED, How.ROUNDED),
    **dict.fromkeys(COMPARISONS, How.COMPARED),
    **dict.fromkeys(COUNTED, How.COUNTED),
    **dict.fromkeys(SAMPLED, How.SAMPLED),
}

FOREIGN = (
    "statistics",
    "h5py",
    "scipy",
    "sklearn",
    "PIL",
    "cv2",
    "pandas",
    "skimage",
    "librosa",
    "torch",
    "jax",
    "matplotlib",
)
UNREPARAMETERISED = frozenset(
    """Categorical OneHotCategorical Bernoulli Binomial Multinomial Poisson Geometric NegativeBinomial
    PlackettLuce Empirical FiniteDiscrete ExpRelaxed_off DirichletMultinomial Zipf Skellam""".split()
)
