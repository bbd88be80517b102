"""From the API's JSON to what a person reads. Nothing here talks to the service or reads a clock."""
