"""Loops over TensorFlow that end in every way TensorFlow has. Each function is a ``make_loop`` of its own."""

import ctypes
import resource
import time

import keras
import tensorflow as tf

axes = ("precision", "jit_compile")

MESSAGES = [
    (tf.errors.InternalError, "Dst tensor is not initialized."),
    (
        tf.errors.UnknownError,
        "Failed to get convolution algorithm. This is probably because cuDNN failed to initialize",
    ),
    (tf.errors.InternalError, "Failed to create cublas handle: the resource allocation failed"),
    (tf.errors.InternalError, "CUDNN_STATUS_ALLOC_FAILED in external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc"),
    (tf.errors.InternalError, "Failed to call ThenRnnForward with model config: [rnn_mode, rnn_input_mode]"),
    (tf.errors.NotFoundError, "No algorithm worked!  Error messages:"),
    (tf.errors.InvalidArgumentError, "Cannot parse tensor from proto: dtype: DT_FLOAT"),
    (tf.errors.ResourceExhaustedError, "OOM when allocating tensor with shape[4,4] and type float by GPU_0_bfc"),
]


class Loop:
    def __init__(self, settings, act=lambda: None):
        self.settings, self.act = settings, act
        self.x = tf.ones((settings.micro_batch, 1024))

    def update(self):
        self.act()
        tf.matmul(self.x, self.x, transpose_b=True)
        return {"samples": self.settings.global_batch}


def healthy(settings):
    return Loop(settings)


def takes_too_much(settings):
    """4 MiB for each sample of a micro-batch."""
    return Loop(settings, lambda: tf.zeros((settings.micro_batch, 1 << 20)) + 1.0)


def disguised(settings):
    """The seed says which message."""
    kind, message = MESSAGES[settings.seed]

    def act():
        raise kind(None, None, message)

    return Loop(settings, act)


def wrapped(settings):
    def act():
        try:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        except tf.errors.ResourceExhaustedError as problem:
            raise RuntimeError("the training step failed") from problem

    return Loop(settings, act)


def fails_inside(settings):
    def act():
        raise tf.errors.InternalError(
            None, None, "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
        )

    return Loop(settings, act)


def runs_out_of_address_space(settings):
    """A real std::bad_alloc, which no one catches."""
    loop = Loop(settings)
    loop.update()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
    operator_new = ctypes.CDLL("libstdc++.so.6")["_Znwm"]
    operator_new.argtypes, operator_new.restype = [ctypes.c_size_t], ctypes.c_void_p
    operator_new(1 << 40)


def fails_in_a_traced_function(settings):
    @tf.function
    def step(x):
        if tf.reduce_sum(x) > 0:
            x = tf.reshape(x, (7, 3, 5))
        return x

    return Loop(settings, lambda: step(tf.ones((4, 4))))


def fails_in_a_generator(settings):
    def samples():
        yield 1.0
        raise LookupError("sample 2 is missing")

    iterator = iter(tf.data.Dataset.from_generator(samples, output_signature=tf.TensorSpec((), tf.float32)))
    return Loop(settings, lambda: next(iterator))


def hangs_in_a_generator(settings):
    def samples():
        yield 1.0
        time.sleep(86400)

    iterator = iter(tf.data.Dataset.from_generator(samples, output_signature=tf.TensorSpec((), tf.float32)))
    return Loop(settings, lambda: next(iterator))


def runs_out_of_samples(settings):
    iterator = iter(tf.data.Dataset.range(2))
    return Loop(settings, lambda: iterator.get_next())


def cannot_be_compiled(settings):
    @tf.function(jit_compile=settings.jit_compile)
    def step(x):
        return tf.strings.as_string(x)

    return Loop(settings, lambda: step(tf.ones((4,))))


def trains_in_another_precision(settings):
    """Reads the precision, and gives its layers a dtype of their own."""
    settings.precision  # noqa: B018
    loop = Loop(settings)
    loop.model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, dtype="float32")])
    return loop


def trains_as_asked(settings):
    keras.config.set_dtype_policy(settings.precision)
    loop = Loop(settings)
    loop.model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    return loop


def tells_its_conditions(settings):
    print("inter-op", tf.config.threading.get_inter_op_parallelism_threads())
    return Loop(settings)
