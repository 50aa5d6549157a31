"""One module per command.

A module is found by its file name and provides ``HELP`` (one line), ``EXAMPLE`` (one command line),
``add_arguments(parser)`` and ``run(args) -> int`` (the exit code). Module level imports stay light: standard library,
``autotune.core`` and ``autotune.errors``; everything else is imported in ``run``.
"""
