"""A run on a Ray cluster: places processes as a plan says, supervises them, and tells each where the others are."""
