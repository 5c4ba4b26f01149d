"""What each layer of a model launches on one device of a deployment, as Ops."""
