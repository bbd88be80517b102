"""Alembic's folder: `env.py` runs the steps in `versions/`. Only `schedulearn.store.schema` calls it."""
