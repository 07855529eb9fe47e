"""What a block needs and takes: closed forms (estimate), exact events (schedule), predicted instructions."""
