"""What there is to choose from: the stages by name, presets, and stages from files and packages."""
