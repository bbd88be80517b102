"""The command line: one file a verb. It talks to the service through `schedulearn.client` alone."""
