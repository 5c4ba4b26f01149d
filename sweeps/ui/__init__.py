"""A local explorer in the browser: one deployment whose hardware, model, layout and load are changed by controls."""
