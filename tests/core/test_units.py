import pytest

from autotune.core.units import (
    MemoryLimit,
    format_bytes,
    format_rate,
    format_seconds,
    parse_duration,
    parse_memory_limit,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [("200MiB", 200 << 20), ("8GiB", 8 << 30), ("4GB", 4 * 10**9), ("1.5 KiB", 1536), ("512", 512), ("1tb", 10**12)],
)
def test_sizes(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "MiB", "0MiB", "-1GiB", "1e3", "200 apples", "nan"])
def test_no_sizes(text):
    with pytest.raises(ValueError, match="write a size like 200MiB"):
        parse_size(text)


def test_a_share_is_of_the_usable_memory():
    assert parse_memory_limit("90%") == MemoryLimit(share=0.9)
    assert parse_memory_limit("90%").resolve(1000) == 900
    assert parse_memory_limit("1MiB").resolve(1000) == 1 << 20
    for text in ("0%", "101%"):
        with pytest.raises(ValueError, match="above 0 % and up to 100 %"):
            parse_memory_limit(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("1.5", 1.5), ("1 d", 86400)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10 weeks", "0s", "-5s", "5m later"])
def test_no_durations(text):
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (1524432896, "1.42 GiB"), (3 << 40, "3.00 TiB")],
)
def test_bytes_for_people(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0123, "12.3 ms"), (1.234, "1.23 s"), (59.94, "59.9 s"), (95, "1m 35s"), (3720, "1h 02m")],
)
def test_seconds_for_people(seconds, text):
    assert format_seconds(seconds) == text


def test_rates_for_people():
    assert format_rate(12310.4) == "12,310"
    assert format_rate(9.876) == "9.88"
    assert format_rate(None) == "-"
