"""The API's one door into the service."""
