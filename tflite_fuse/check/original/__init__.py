"""What each operator of the original model computes, derived independently of the rewriting code."""
