"""The steps of one model: rewrite, prove, run, report, and figures of other options."""
