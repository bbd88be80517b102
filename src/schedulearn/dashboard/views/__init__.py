"""What pages show, as markup: what the API answers in, HTML out. No NiceGUI, no calls."""
