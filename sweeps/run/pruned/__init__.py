"""Branch and bound over the points of a sweep of which little is kept: what cannot be among the best is not computed."""
