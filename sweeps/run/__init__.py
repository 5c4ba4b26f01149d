"""The evaluation of questions: compiled grids and samples, small sets of points, single answers."""
