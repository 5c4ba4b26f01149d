"""One engine step: its ops, what runs beside what, and its time."""
