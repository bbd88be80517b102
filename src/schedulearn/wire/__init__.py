"""What the service, its clients and the page share: the types of answers, the fields of a job's spec, words for values.

Standard library only, and quick to load: the command line imports it at each start.
"""
