"""Reports: any saved results as one offline interactive HTML page."""
