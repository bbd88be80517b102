"""What reports are made of: pages, tables, plots and files."""
