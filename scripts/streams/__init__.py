"""Models that go along with time, before and after: what ``bench_streams.py`` measures."""
