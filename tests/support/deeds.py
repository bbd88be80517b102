"""What workers do in tests of executors: as a command where programs run, as a behaviour where they are simulated."""

from dataclasses import dataclass

from support.simulated_worker import Behaviour

GO_AFTER = 10_000.0  # seconds of virtual time: what waits for a word waits so long


@dataclass(frozen=True, slots=True)
class Deed:
    """`bench.doing(deed)` is a launch of it."""

    simulated: Behaviour
    command: str | tuple[str, ...] = ""
    python: str = ""  # a program, instead of a command


def exits(code: int) -> Deed:
    return Deed(Behaviour(runs=0.0, exit_code=code), f"exit {code}")


def _on_term(action: str) -> str:
    return f"import signal, sys, time; signal.signal(15, {action}); print('ready', flush=True); time.sleep(1000)"


FOREVER = Deed(Behaviour(), ("sleep", "1000"))
MISSING = Deed(Behaviour(problem="no-such-program-anywhere: not found"), ("no-such-program-anywhere",))
NOTED = Deed(Behaviour(), "echo once >> ran; exec sleep 1000")  # for `bench.times_run`
WRITES = Deed(Behaviour(runs=0.1), "echo x > file")
BUSY = Deed(Behaviour(), python="print('ready', flush=True)\nwhile True: pass")

# For `bench.ticks`.
TICKS = Deed(Behaviour(), "while true; do echo tick; sleep 0.01; done")
TREE_TICKS = Deed(
    Behaviour(), "(while true; do echo child; sleep 0.01; done) & while true; do echo tick; sleep 0.01; done"
)

# `bench.let_go` lets it end.
WAITS = Deed(Behaviour(runs=GO_AFTER, exit_code=5), "while [ ! -e go ]; do sleep 0.01; done; exit 5")

# When they are asked to end. `bench.ready` waits until they can hear it.
OBEYS = Deed(Behaviour(term_takes=0.1, term_code=7), python=_on_term("lambda *_: sys.exit(7)"))
REFUSES = Deed(Behaviour(term_takes=float("inf")), python=_on_term("signal.SIG_IGN"))
SHELL_OBEYS = Deed(
    Behaviour(term_takes=0.1, term_code=5), "trap 'exit 5' TERM; echo ready; while true; do sleep 0.01; done"
)
SAVES = Deed(
    Behaviour(term_takes=0.1, term_code=0),
    "trap 'echo x > $SCHEDULEARN_CHECKPOINT_DIR/model; exit 0' TERM; echo ready; while true; do sleep 0.01; done",
)

# Says who belongs to its group, and what it may use, whenever that changes; leaves if it does not belong there.
MEMBER = Deed(
    Behaviour(leaves_after=0.1),
    python="""
import json, os, time
rank, said = int(os.environ["SCHEDULEARN_WORKER"].split(".")[2]), None
while True:
    try:
        told = json.loads(open(os.environ["SCHEDULEARN_CONTROL"]).read())
    except (OSError, ValueError):
        continue
    now = (told["generation"], told["members"], told["world_size"], told["cpus"])
    if now != said:
        print("ready", json.dumps(now), flush=True)
        said = now
    if rank not in told["members"]:
        break
    time.sleep(0.02)
""",
)
