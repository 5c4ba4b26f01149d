"""Files: TOML and JSON read with names in every error, and files that appear only when they are whole."""
