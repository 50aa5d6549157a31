"""Tables, pictures and files from a :class:`~autotune.core.study.Study`; the only place that imports pandas and Altair.

Every table and chart is computed as plain values first (``columns``, ``accumulation``, ``chart_data``, ``compare``),
then drawn (``frames``, ``text``, ``charts``, ``page``): the values are what tests check.
"""
