"""Output blocks and pictures of README and the guide, made by the commands that stand above them."""
