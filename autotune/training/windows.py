"""Input: global batches ("windows") cut from a data set of single samples, exactly, tail included."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from autotune.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One global batch (on one worker: its replicas' share), ready for an update.

    Attributes:
        batch: structure of tensors ``[rows, ...]``; rows beyond ``samples`` are copies of real samples at weight 0.
        samples: real samples.
        counted: ``samples`` as an int32 scalar tensor.
    """

    batch: Any
    samples: int
    counted: Any


def make_window(batch: Any, samples: int) -> Window:
    """A window of a batch whose first ``samples`` rows are real."""
    return Window(batch=batch, samples=samples, counted=tf.constant(samples, tf.int32))


def check_elements(dataset: Any) -> Any:
    """Returns the specs of a data set of single samples.

    Raises:
        UsageError: the data set is not one whose samples can be cut into windows, with the mend.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(f"dataset() returned {type(dataset).__name__}; return a tf.data.Dataset of single samples")
    for spec in tf.nest.flatten(dataset.element_spec):
        if not isinstance(spec, tf.TensorSpec):
            raise UsageError(
                f"dataset() yields {type(spec).__name__.removesuffix('Spec')} values; yield dense tensors (of variable "
                "length where needed: workload.pad pads them)"
            )
        if spec.shape.rank is None:
            raise UsageError(
                "dataset() yields tensors of unknown rank; set their shape, with None for variable lengths"
            )
    return dataset.element_spec


def is_ragged(spec: Any) -> bool:
    """Whether samples of this spec vary in length."""
    return any(not item.shape.is_fully_defined() for item in tf.nest.flatten(spec))


def pad_values(spec: Any, pad: Any) -> Any:
    """The padding value of each component, as scalar tensors of its dtype."""
    flat = tf.nest.flatten(spec)
    given = tf.nest.flatten(pad)
    if len(given) == 1:
        given = given * len(flat)
    if len(given) != len(flat):
        raise UsageError(f"workload.pad has {len(given)} values for {len(flat)} components; give one, or one for each")
    values = [
        tf.constant("" if value == 0 else value) if item.dtype == tf.string else tf.cast(value, item.dtype)
        for item, value in zip(flat, given, strict=True)
    ]
    return tf.nest.pack_sequence_as(spec, values)


_BUCKETS = sorted({1, 2, *(2**k for k in range(2, 40)), *(3 * 2**k for k in range(38))})


def bucket_length(length: Any, most: int | None) -> Any:
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24 ... that holds ``length``; at most a third of it is padding.

    XLA compiles once per shape: buckets bound how often.

    Args:
        length: int64 scalar.
        most: length of the longest sample: a model may hold no more (a table of positions); None where unknown. What
            is longer all the same gets the usual bucket.
    """
    buckets = tf.constant(_BUCKETS, tf.int64)
    bucket = tf.reduce_min(tf.where(buckets >= length, buckets, buckets[-1]))
    if most is None:
        return bucket
    return tf.where(length <= most, tf.minimum(bucket, tf.constant(most, tf.int64)), bucket)


def pad_lengths(batch: Any, sample_spec: Any, values: Any, longest: Any) -> Any:
    """Pads the variable dimensions of a batch to their bucket; ``longest`` is a sample in the same structure."""

    def one(tensor: Any, spec: Any, value: Any, most: Any) -> Any:
        if spec.shape.is_fully_defined():
            return tensor
        shape = tf.shape(tensor, tf.int64)
        amounts = [tf.constant([0, 0], tf.int64)]
        for axis, size in enumerate(spec.shape, start=1):
            extra = tf.constant(0, tf.int64)
            if size is None:
                extra = bucket_length(shape[axis], most.shape[axis - 1] if longest is not None else None) - shape[axis]
            amounts.append(tf.stack([tf.constant(0, tf.int64), extra]))
        padded = tf.pad(tensor, tf.stack(amounts), constant_values=value)
        padded.set_shape([None, *spec.shape])
        return padded

    return tf.nest.map_structure(one, batch, sample_spec, values, sample_spec if longest is None else longest)


def pad_rows(batch: Any, rows: int) -> Any:
    """Brings a batch to ``rows`` rows by repeating its own samples (zeros could give NaN; copies cannot)."""
    count = tf.shape(tf.nest.flatten(batch)[0])[0]

    def fill() -> Any:
        index = tf.range(rows) % tf.maximum(count, 1)
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, index), batch)

    filled = tf.cond(tf.logical_or(count >= rows, count == 0), lambda: batch, fill)
    return tf.nest.map_structure(lambda tensor: tf.ensure_shape(tensor, [None, *tensor.shape[1:]]), filled)


def untuned(dataset: Any) -> Any:
    """A data set whose iterators end at once.

    TensorFlow 2.21 may not wake the thread that tunes a pipeline when its iterator is destroyed; it then waits for that
    thread's next turn, up to a minute, and holds Python's lock meanwhile (``docs/training-loop.md``).
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class Windows:
    """The stream of windows: epochs without end, each closed by an empty window that marks where it ended.

    Args:
        dataset: single samples.
        samples: samples of a full window.
        rows: rows a window is padded to, or None to leave windows as long as they are.
        drop_tail: leave out the window that is not full, at the end of an epoch.
        pad: padding value of variable-length data.
        bucketed: pad lengths to buckets, not just to the window's longest.
        longest: the workload's own answer to what its longest sample is; no bucket is longer.

    Attributes:
        spec: specs of a sample.
        ragged: samples vary in length.
        wait_s: seconds that ``take`` has waited.
        epoch: epochs that are over.
        taken: windows taken in the present epoch.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        samples: int,
        rows: int | None,
        drop_tail: bool,
        pad: Any,
        bucketed: bool,
        longest: Callable[[], Any] | None = None,
    ) -> None:
        self.spec = check_elements(dataset)
        self.ragged = is_ragged(self.spec)
        self._dataset = dataset
        self._samples = samples
        self._rows = rows
        self._drop_tail = drop_tail
        self._values = pad_values(self.spec, pad)
        self._bucketed = bucketed and self.ragged
        self._longest = longest
        self._iterator: Any = None
        self._ahead: Window | None = None
        self.wait_s = 0.0
        self.epoch = 0
        self.taken = 0

    @property
    def batch_spec(self) -> Any:
        """Specs of a window's tensors: ``[None, ...]``."""
        return tf.nest.map_structure(lambda item: tf.TensorSpec([None, *item.shape], item.dtype), self.spec)

    def batches(self, dataset: Any, samples: int, *, drop_tail: bool) -> Any:
        """Windows of a data set as (batch, samples), without prefetching."""
        if self.ragged:
            batched = dataset.padded_batch(samples, padding_values=self._values, drop_remainder=drop_tail)
        else:
            batched = dataset.batch(samples, drop_remainder=drop_tail)
        longest = self._longest_sample() if self._bucketed else None
        unpacked = type(self.spec) is tuple  # what Dataset.map unpacks into arguments

        @tf.autograph.experimental.do_not_convert
        def finish(*components: Any) -> Any:
            batch = components if unpacked else components[0]
            count = tf.shape(tf.nest.flatten(batch)[0])[0]
            if self._bucketed:
                batch = pad_lengths(batch, self.spec, self._values, longest)
            if self._rows is not None:
                batch = pad_rows(batch, self._rows)
            return batch, count

        return batched.map(finish)

    def stream(self, skip: int = 0) -> Any:
        """The endless data set of windows, an empty one after each epoch; leaves out the first ``skip``."""
        empty = tf.nest.map_structure(
            lambda item: tf.zeros([0, *[size or 0 for size in item.shape]], item.dtype), self.spec
        )
        end = tf.data.Dataset.from_tensors((empty, tf.constant(0)))
        epoch = self.batches(self._dataset, self._samples, drop_tail=self._drop_tail).concatenate(end)
        endless = epoch.skip(skip).concatenate(epoch.repeat()) if skip else epoch.repeat()
        return endless.prefetch(2)

    def seek(self, dataset: Any, epoch: int, taken: int) -> None:
        """Goes to a position: ``taken`` windows into an epoch.

        tf.data cannot save where a reshuffling data set stands (its seeds live outside the iterator), nor one that a
        Python generator feeds. So a fresh data set is brought there again: one iterator per epoch that is over, which
        draws that epoch's shuffling seeds and reads nothing, then this epoch's windows one by one.

        Args:
            dataset: freshly made, as at the beginning.
            epoch: epochs that are over.
            taken: windows taken in the present one.
        """
        self._dataset = dataset
        for _ in range(epoch):
            iter(dataset)
        self.epoch, self.taken = epoch, taken
        self._iterator, self._ahead = iter(self.stream(taken)), None

    def peek(self) -> Window:
        """The window that ``take`` will return."""
        if self._iterator is None:
            self._iterator = iter(self.stream())
        if self._ahead is None:
            batch, count = next(self._iterator)
            self._ahead = make_window(batch, int(count))
        return self._ahead

    def take(self) -> Window:
        """The next window; an empty one (0 samples) marks the end of an epoch."""
        begin = time.perf_counter()
        window = self.peek()
        self._ahead = None
        self.wait_s += time.perf_counter() - begin
        if window.samples:
            self.taken += 1
        else:
            self.epoch, self.taken = self.epoch + 1, 0
        return window

    def prepare(self, samples: int, limit: int = 10_000) -> tuple[Window, str | None]:
        """A window of ``samples`` samples that stays in memory, for measuring without an input pipeline.

        Args:
            samples: real samples of the window.
            limit: how many samples to look at for the longest, where lengths vary and the workload does not say.

        Returns:
            (window, a sentence saying which sample shape was used or None where all are alike).
        """
        source, note = self._dataset, None
        given = self._longest_sample()
        if given is not None:
            note = f"sized with workload.longest(): {_shapes(given)}"
            source = tf.data.Dataset.from_tensors(given)
        elif self.ragged:
            sample = max(untuned(source.take(limit)), key=_elements, default=None)
            if sample is not None:
                note = f"sized with the longest of the first {limit} samples: {_shapes(sample)}"
                source = tf.data.Dataset.from_tensors(self._as_sample(sample))
        for batch, count in untuned(self.batches(source.repeat(), samples, drop_tail=True).take(1)):
            return make_window(batch, int(count)), note
        raise UsageError("dataset() is empty")

    def _longest_sample(self) -> Any:
        """The workload's longest sample; None where it does not say."""
        if self._longest is None:
            return None
        sample = self._longest()
        tf.nest.assert_same_structure(sample, self.spec)
        return self._as_sample(sample)

    def _as_sample(self, sample: Any) -> Any:
        return tf.nest.map_structure(lambda value, item: tf.cast(value, item.dtype), sample, self.spec)


def _elements(sample: Any) -> int:
    return sum(int(tf.size(item)) for item in tf.nest.flatten(sample))


def _shapes(sample: Any) -> str:
    return ", ".join(str(tuple(tf.convert_to_tensor(item).shape)) for item in tf.nest.flatten(sample))
