"""From readings of an allocator to one peak."""

from autotune.core.peaks import FIRST_WINDOW, REORDERED, Span, confirmed, order_peaks, settled_peak


def span(name, before, peak):
    return Span(name=name, before=before, peak=peak, after=before)


def test_a_peak_is_the_largest_part_each_the_least_of_its_repeats():
    assert settled_peak([]) is None
    spans = [span("build", 0, 5), span(FIRST_WINDOW, 5, 50), span("window", 6, 51), span("window", 6, 57)]
    assert settled_peak(spans) == 51
    assert settled_peak([*spans, span("evaluation", 6, 60), span("evaluation", 6, 70)]) == 60


def test_a_reordered_window_counts_as_if_it_had_been_the_first():
    one, two = f"{REORDERED} 1", f"{REORDERED} 2"
    spans = [span(FIRST_WINDOW, 5, 50), span(one, 10, 53), span(two, 15, 66)]
    assert settled_peak(spans) == 66 - 15 + 5
    assert order_peaks(spans) == (53 - 10 + 5, 66 - 15 + 5)
    assert settled_peak([*spans, span(two, 15, 62)]) == 62 - 15 + 5  # the same graph again: the larger was an accident


def test_of_orders_the_largest_that_another_confirms_counts():
    assert confirmed([1000]) == 1000
    assert confirmed([1000, 1200, 1000, 1195, 1400]) == 1200
    assert confirmed([1000, 1200, 1400]) == 1400  # nothing agrees: better too much than too little
    names = ["window", *(f"{REORDERED} {n}" for n in range(4))]
    spans = [span(FIRST_WINDOW, 0, 900), *map(span, names, [0] * 5, [1000, 1050, 1001, 1000, 1000])]
    assert settled_peak(spans) == 1001
    assert settled_peak([span(FIRST_WINDOW, 0, 2000), *spans[1:]]) == 2000  # it happened, and happens in training
