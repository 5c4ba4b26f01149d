"""Branch and bound over a sweep of which the best points are kept: what cannot be among them is not computed."""
