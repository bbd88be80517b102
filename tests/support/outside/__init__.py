"""Random faults from outside: the real service, real workers, and jobs that keep a diary of their own.

`plan` draws a schedule by a seed, `world` has the service and whatever can be broken around it, `users` act as people
would, `verdict` compares what the service says with the diaries, and `run` does all of it for one seed.
"""
