"""The figures, measured and printed as tables: `python -m bench [NAME…]`, from the project's root."""
