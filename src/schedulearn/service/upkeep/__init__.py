"""Looking after the data folder: backups, disk, housekeeping, certificates."""
