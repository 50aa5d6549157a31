"""Ideas for the loop that were tried once: each is an execution like ours with one thing changed.

``python -m tests.benchmarks.loop --what ideas`` measures each against the execution it changes, interleaved in one
process.
"""

from __future__ import annotations

import tensorflow as tf

from autotune.training.executions.fused import Fused
from autotune.training.executions.stepped import Stepped
from autotune.training.gradients import add_to, densify


def added(accumulated, gradients):
    return [
        total if gradient is None else add_to(total, gradient)
        for total, gradient in zip(accumulated, gradients, strict=True)
    ]


def looped(start, body, count, parallel=1):
    """Runs ``body(k, *carried) -> carried`` for k below ``count``; returns what is carried at the end."""

    def step(k, *carried):
        return (k + 1, *body(k, *carried))

    return tf.while_loop(lambda k, *_: k < count, step, start, parallel_iterations=parallel)[1:]


class Zeroed(Fused):
    """Accumulators start from zeros and the loop holds every micro-batch, the first one too."""

    name = "zeroed"
    parallel = 1

    def accumulate(self, batch, samples, window, reference):
        def add(k, accumulated, sums):
            gradients, more = self._micro(batch, k, samples, window, reference)
            return added(accumulated, gradients), sums.plus(more)

        start = (tf.constant(0), self._engine.no_gradients(), self._engine.no_sums())
        return looped(start, add, self.slicer.count(samples), self.parallel)


class Parallel(Zeroed):
    """TensorFlow's default of ten loop iterations in flight."""

    name = "parallel"
    parallel = 10


class Doubled(Fused):
    """The loop's body holds two micro-batches; only for an even number of them."""

    name = "doubled"

    def accumulate(self, batch, samples, window, reference):
        def add(k, accumulated, sums):
            for offset in (0, 1):
                gradients, more = self._micro(batch, 2 * k + offset, samples, window, reference)
                accumulated, sums = added(accumulated, gradients), sums.plus(more)
            return accumulated, sums

        start = (tf.constant(0), self._engine.no_gradients(), self._engine.no_sums())
        return looped(start, add, self.slicer.count(samples) // 2)


class Ahead(Fused):
    """The loop carries the next micro-batch: its copy may run beside the backward pass."""

    name = "ahead"

    def accumulate(self, batch, samples, window, reference):
        engine, slicer = self._engine, self.slicer
        count = slicer.count(samples)

        def add(k, micro, rows, accumulated, sums):
            following = slicer.micro(batch, tf.minimum(k + 1, count - 1), samples)
            gradients, more = engine.micro_gradients(micro, rows, window, reference, None)
            return *following[:2], added(accumulated, gradients), sums.plus(more)

        cut = slicer.micro(batch, tf.constant(0), samples)
        start = (tf.constant(0), *cut[:2], engine.no_gradients(), engine.no_sums())
        return looped(start, add, count, 2)[2:]


class Static(Fused):
    """Every micro-batch has a static number of rows, although nothing is compiled by XLA."""

    name = "static"

    def __init__(self, engine, settings, batch_spec):
        super().__init__(engine, settings, batch_spec)
        cut = self.slicer.micro

        def micro(batch, k, samples):
            part, rows, mask = cut(batch, k, samples)
            for tensor in tf.nest.flatten(part):
                tensor.set_shape([settings.micro_batch, *tensor.shape[1:]])
            return part, rows, mask

        self.slicer.micro = micro


class Autograph(Fused):
    """tf.function with autograph."""

    name = "autograph"

    def __init__(self, engine, settings, batch_spec):
        super().__init__(engine, settings, batch_spec)
        self.function = tf.function(self._update, input_signature=self.function.input_signature)


class Retracing(Fused):
    """``reduce_retracing`` instead of an input signature."""

    name = "reduce_retracing"

    def __init__(self, engine, settings, batch_spec):
        super().__init__(engine, settings, batch_spec)
        self.function = tf.function(self._update, reduce_retracing=True, autograph=False)


class ApplyByXla(Fused):
    """XLA compiles the end of the window alone: unscaling, norm, optimizer."""

    name = "apply"

    def __init__(self, engine, settings, batch_spec):
        super().__init__(engine, settings, batch_spec)
        self._finish = tf.function(engine.finish, jit_compile=True, autograph=False)

    def _update(self, batch, samples):
        gradients, sums = self.accumulate(batch, samples, samples, None)
        return self._finish(gradients, sums, [], samples)


class FirstAssigns(Stepped):
    """The first micro-batch assigns to the accumulators, the others add: nothing is zeroed."""

    name = "assigns"

    def _micro(self, batch, k, window, reference, sums):
        micro, rows, mask = self._slicer.micro(batch, k, window)
        gradients, more = self._engine.micro_gradients(micro, rows, window, None, mask)
        self._absent = [gradient is None for gradient in gradients]
        dense = [densify(gradient) for gradient in gradients]

        def assign():
            for accumulator, gradient in zip(self._accumulators, dense, strict=True):
                accumulator.assign(gradient)
            return 0

        def add():
            for accumulator, gradient in zip(self._accumulators, dense, strict=True):
                accumulator.assign_add(gradient)
            return 0

        tf.cond(tf.equal(k, 0), assign, add)
        return sums.plus(more)

    def _clear(self):
        pass


class ThreeFunctions(Stepped):
    """Three programs: the first micro-batch assigns, the middle ones add, the last one adds and applies."""

    name = "three"

    def __init__(self, engine, settings, batch_spec):
        super().__init__(engine, settings, batch_spec)
        options = {"jit_compile": settings.jit_compile or None, "autograph": False}
        self._first = tf.function(lambda *call: self._some(*call, first=True), **options)
        self._middle = tf.function(lambda *call: self._some(*call, first=False), **options)
        self._last = tf.function(self._closing, **options)

    def _some(self, batch, k, window, sums, *, first):
        micro, rows, mask = self._slicer.micro(batch, k, window)
        gradients, more = self._engine.micro_gradients(micro, rows, window, None, mask)
        for accumulator, gradient in zip(self._accumulators, gradients, strict=True):
            (accumulator.assign if first else accumulator.assign_add)(densify(gradient))
        return sums.plus(more)

    def _closing(self, batch, k, window, sums):
        micro, rows, mask = self._slicer.micro(batch, k, window)
        gradients, more = self._engine.micro_gradients(micro, rows, window, None, mask)
        gradients = added([accumulator.read_value() for accumulator in self._accumulators], gradients)
        return self._engine.finish(gradients, sums.plus(more), [], window)

    def update(self, window):
        sums = self._first(window.batch, self._numbers[0], window.counted, self._no_sums)
        for k in self._numbers[1:-1]:
            sums = self._middle(window.batch, k, window.counted, sums)
        return self._last(window.batch, self._numbers[-1], window.counted, sums)


class Flat(Stepped):
    """One accumulator holds all gradients, one behind the other."""

    name = "flat"

    def __init__(self, engine, settings, batch_spec):
        super().__init__(engine, settings, batch_spec)
        self._shapes = [accumulator.shape for accumulator in self._accumulators]
        self._sizes = [shape.num_elements() for shape in self._shapes]
        self._flat = tf.Variable(tf.zeros([sum(self._sizes)]), trainable=False)

    def _micro(self, batch, k, window, reference, sums):
        micro, rows, mask = self._slicer.micro(batch, k, window)
        gradients, more = self._engine.micro_gradients(micro, rows, window, None, mask)
        self._flat.assign_add(tf.concat([tf.reshape(densify(gradient), [-1]) for gradient in gradients], 0))
        return sums.plus(more)

    def _apply(self, sums, before, window):
        parts = tf.split(self._flat.read_value(), self._sizes)
        gradients = [tf.reshape(part, shape) for part, shape in zip(parts, self._shapes, strict=True)]
        result = self._engine.finish(gradients, sums, before, window)
        self._flat.assign(tf.zeros_like(self._flat))
        return result


class CutBefore(Stepped):
    """Micro-batches arrive as tensors of their own instead of being cut out of the window in the call."""

    name = "cut_before"

    def __init__(self, engine, settings, batch_spec):
        super().__init__(engine, settings, batch_spec)
        self._given = tf.function(self._whole, jit_compile=settings.jit_compile or None, autograph=False)
        self._cut = None

    def _whole(self, micro, rows, window, sums):
        gradients, more = self._engine.micro_gradients(micro, rows, window, None, None)
        for accumulator, gradient in zip(self._accumulators, gradients, strict=True):
            accumulator.assign_add(densify(gradient))
        return sums.plus(more)

    def update(self, window):
        size = self._slicer.size
        if self._cut is None:
            starts = range(0, window.samples, size)
            self._cut = [
                tf.nest.map_structure(lambda t, s=s: tf.identity(t[s : s + size]), window.batch) for s in starts
            ]
            self._rows, self._absent = tf.constant(size), [False] * len(self._accumulators)
        sums = self._no_sums
        for micro in self._cut:
            sums = self._given(micro, self._rows, window.counted, sums)
        return self._end(sums, [], window.counted)


FUSED = (Zeroed, Parallel, Doubled, Ahead, Static, Autograph, Retracing, ApplyByXla)
STEPPED = (FirstAssigns, ThreeFunctions, Flat, CutBefore)
IDEAS = {f"fused+{kind.name}": kind for kind in FUSED} | {f"stepped+{kind.name}": kind for kind in STEPPED}
UNEVEN = "fused+uneven"  # as few micro-batches, but as large as possible: the last one is tiny
JITTED = ("fused+zeroed", "fused+doubled", "stepped+assigns", "stepped+three")  # worth a look under XLA as well


def pairs():
    """(idea, the execution that it changes), for every idea."""
    plain = [(name, name.partition("+")[0]) for name in (*IDEAS, UNEVEN)]
    return plain + [(f"{name}-jit", f"{name.partition('+')[0]}-jit") for name in JITTED]
