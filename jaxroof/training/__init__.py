"""Training: what a step back through the model costs, and how pipelines, replicas and optimisers spread it."""
