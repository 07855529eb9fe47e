"""What each operator of the original model computes, worked out a second time."""
