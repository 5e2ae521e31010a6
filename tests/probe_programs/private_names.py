"""Checks every private name of TensorFlow that the probe uses, one by one; prints {name: true or what is wrong}."""

import ctypes
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def op_callbacks(tf):
    from tensorflow.python.framework import op_callbacks as module

    seen = []

    def callback(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        seen.append((op_type, len(inputs), len(outputs)))

    module.add_op_callback(callback)
    tf.add(tf.constant(1.0), tf.constant(2.0))
    module.remove_op_callback(callback)
    assert any(str(op).startswith("Add") and ins == 2 and outs == 1 for op, ins, outs in seen), seen


def eager_numpy(tf):
    base = next(cls for cls in type(tf.constant([1.0])).__mro__ if "_numpy" in vars(cls))
    real, seen = base._numpy, []
    base._numpy = lambda self: seen.append(1) or real(self)
    try:
        float(tf.constant(1.0)), int(tf.constant(1)), bool(tf.constant(True)), tf.constant(1.0).numpy()
    finally:
        base._numpy = real
    assert len(seen) == 4, seen


def buffer_slot(tf):
    kind = type(tf.constant([1.0]))
    size = ctypes.sizeof(ctypes.c_void_p)
    assert ctypes.c_void_p.from_address(id(kind) + 20 * size).value
    assert memoryview(tf.constant([1.0, 2.0])).nbytes == 8


def tensor_number(tf):
    first, second = tf.constant(1.0), tf.constant(1.0)
    assert first._id != second._id


def variable_handle(tf):
    from tensorflow.python.ops import resource_variable_ops

    variable = tf.Variable([1.0])
    assert isinstance(variable, resource_variable_ops.BaseResourceVariable)
    assert "_handle" in vars(variable)
    assert hasattr(variable.handle, "_id")


def variable_class(tf):
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable

    assert int(ResourceVariable(0, dtype=tf.int64, trainable=False).assign_add(1)) == 1


def read_variable(tf):
    from tensorflow.python.ops import gen_resource_variable_ops as raw

    variable = tf.Variable([2.0])
    assert float(raw.read_variable_op(variable.handle, tf.float32)[0]) == 2.0


def tape_push_and_pop(tf):
    from tensorflow.python.eager import backprop

    assert callable(backprop.GradientTape._push_tape)
    assert callable(backprop.GradientTape._pop_tape)


def gradient_function(tf):
    from tensorflow.python.eager import backprop

    one = tf.constant(1.0)
    attrs = ("T", one.dtype.as_datatype_enum)
    assert list(backprop._gradient_function("Round", attrs, 1, [one], [one], [one], (), "")) == [None]
    assert backprop._gradient_function("Neg", attrs, 1, [one], [one], [one], (), "") is not None


def stop_recording(tf):
    try:
        from tensorflow.python.eager.record import stop_recording as stopped
    except ImportError:
        from tensorflow.python.eager.tape import stop_recording as stopped
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape, stopped():
        y = x * 2.0
    assert tape.gradient(y, x) is None


def what_tapes_follow(tf):
    from tensorflow.python import pywrap_tfe

    try:
        from tensorflow.python.eager import record as module

        assert hasattr(module, "should_record_backprop")
    except (ImportError, AssertionError):
        from tensorflow.python.eager import tape as module
    followed, other = tf.constant(1.0), tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(followed)
        assert module.should_record_backprop([followed])
        assert not module.should_record_backprop([other])
        pywrap_tfe.TFE_Py_TapeSetStopOnThread()
        assert pywrap_tfe.TFE_Py_TapeSetIsStopped()
        assert not module.should_record_backprop([followed])
        pywrap_tfe.TFE_Py_TapeSetRestartOnThread()
        assert module.should_record_backprop([followed])


def graph_around(tf):
    seen = []

    @tf.function
    def inner():
        seen.append(tf.compat.v1.get_default_graph())
        return tf.constant(1.0)

    @tf.function
    def outer():
        seen.append(tf.compat.v1.get_default_graph())
        return inner()

    outer()
    assert seen[1].outer_graph is seen[0]


def record_operation(tf):
    try:
        from tensorflow.python.eager import record as module

        assert hasattr(module, "record_operation")
    except (ImportError, AssertionError):
        from tensorflow.python.eager import tape as module
    real, seen = module.record_operation, []

    def recorded(*args, **kwargs):
        seen.append(args[0])
        return real(*args, **kwargs)

    @tf.custom_gradient
    def same(x):
        return tf.identity(x), lambda upstream: upstream

    module.record_operation = recorded
    try:
        with tf.GradientTape() as tape:
            x = tf.constant(1.0)
            tape.watch(x)
            same(x)
    finally:
        module.record_operation = real
    assert seen, "custom_gradient does not go through it"


def conversion_rules(tf):
    from tensorflow.python.autograph.core import config, config_lib

    assert isinstance(config.CONVERSION_RULES, tuple)
    assert config_lib.Action.DO_NOT_CONVERT
    assert config_lib.Action.NONE


def function_class(tf):
    try:
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
    except ImportError:
        from tensorflow.python.eager.def_function import Function
    assert isinstance(tf.function(lambda: 1), Function)


def stack_of_converted_code(tf):
    from tensorflow.python.util import tf_stack

    assert any(entry.filename == __file__ for entry in tf_stack.extract_stack())


CHECKS = [
    op_callbacks, eager_numpy, buffer_slot, tensor_number, variable_handle, variable_class, read_variable,
    tape_push_and_pop, gradient_function, stop_recording, record_operation, conversion_rules, function_class,
    stack_of_converted_code, what_tapes_follow, graph_around,
]  # fmt: skip

if __name__ == "__main__":
    import tensorflow

    found = {}
    for check in CHECKS:
        try:
            check(tensorflow)
            found[check.__name__] = True
        except Exception as failure:
            found[check.__name__] = "{}: {}".format(type(failure).__name__, failure)
    print(json.dumps(found))
