"""Models: the catalogue, and Hugging Face configs read into the layers of the cost model."""
