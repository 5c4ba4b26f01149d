"""Questions: specifications, cases, axes over leaves and whole structs, and the names of all that is asked."""
