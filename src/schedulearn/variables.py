"""Every environment variable of our own that is read or set, and what it means: the reference is made from this."""

CLIENT = {
    "SCHEDULEARN_URL": "Where the service answers, such as `http://lab:7311`, or `https://lab:7311#sha256=…` with the "
    "fingerprint of its certificate. Not needed on its own machine.",
    "SCHEDULEARN_TOKEN": "Your token. Not needed on the machine of the service, for the owner of the data folder.",
    "SCHEDULEARN_DATA": "The data folder of the service: `~/.schedulearn` if it is not set. `up`, `down`, `backup` and "
    "`restore` use it, and all other verbs find address and token there.",
    "SCHEDULEARN_SNAPSHOT_LIMIT": "The most that a project folder may have, in bytes, when it is submitted "
    "(200,000,000).",
}
SERVICE = {
    "SCHEDULEARN_SSH": "The program that connects to servers at `ssh://…`: `ssh` if it is not set.",
    "SCHEDULEARN_READY_FD": "Between the service and a worker's supervisor: tells that the worker has been claimed. "
    "Not for people.",
}
JOB = {
    "SCHEDULEARN_JOB_ID": "The job: `17`.",
    "SCHEDULEARN_ATTEMPT": "The attempt: `17.2`.",
    "SCHEDULEARN_WORKER": "The worker: `17.2.0`.",
    "SCHEDULEARN_CHECKPOINT_DIR": "Where checkpoints belong: the same path in every attempt.",
    "SCHEDULEARN_CONTROL": "A file with the present limits and the workers that train together.",
    "SCHEDULEARN_URL": "Where the API answers; with TLS and a certificate that the service made, `#sha256=…` at the "
    "end is its fingerprint.",
    "SCHEDULEARN_TOKEN_FILE": "A file with a token that is good for the reports and groups of this attempt alone.",
    "SCHEDULEARN_SPOOL": "A file: reports are kept there until the service has them.",
    "SCHEDULEARN_ACK": "A file: a program may say there how many threads it has.",
    "SCHEDULEARN_THREADS": "Threads at the start; empty without a CPU limit, not set if the job chooses itself.",
}
