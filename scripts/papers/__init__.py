"""The tables of bench_papers.py, a file per paper."""
