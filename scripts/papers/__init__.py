"""What bench_papers.py prints, a file per paper."""
