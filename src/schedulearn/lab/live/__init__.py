"""Published experiments with real training: a private service, real jobs, and the reports of simulated runs."""
