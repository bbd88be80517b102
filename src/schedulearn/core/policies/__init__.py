"""What is best: one short file a stage; `presets` names the combinations."""
