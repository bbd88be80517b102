"""Every error that Schedulearn raises on purpose.

SchedulearnError
├── InvalidSpec           a job spec (or other input) is wrong: says which field and what is allowed
├── ImpossibleRequest     a job asks for more than any node has
├── IllegalTransition     a state change that the table does not allow: a bug
├── NotFound              no such job, node, user, …
├── NotAllowed            the caller may not do this
├── Conflict              not possible in the present state
├── OverLimit             the user has as much as one user may have
├── BadPlan               a policy returned a plan that breaks an invariant
├── NotSimulated          a simulation was asked for what it has no model of (`lab/sim/engine.py`)
├── StoreError            the database cannot be used
│   ├── StoreAway         not now: it is locked, full or does not answer; later it may be well
│   ├── NewerDatabase     it was written by a newer version
│   └── CorruptDatabase   it is damaged
├── RoleTaken             another process already plays this role on the same data folder
└── ExecutorError         a node could not do what it was told
"""


class SchedulearnError(Exception):
    """The root of all errors that are raised on purpose."""


class InvalidSpec(SchedulearnError):
    """Input that is not allowed. `field` is the dotted path of the field, `allowed` what would be right."""

    def __init__(self, field: str, problem: str, allowed: str = "") -> None:
        self.field, self.problem, self.allowed = field, problem, allowed
        super().__init__(f"{field}: {problem}" + (f" (allowed: {allowed})" if allowed else ""))


class ImpossibleRequest(InvalidSpec):
    """A job that no node could ever run."""


class IllegalTransition(SchedulearnError):
    """A state change that the table of transitions does not allow."""


class NotFound(SchedulearnError):
    """There is no such thing."""


class NotAllowed(SchedulearnError):
    """The caller may not do this."""


class Conflict(SchedulearnError):
    """The thing is not in a state in which this can be done."""


class OverLimit(SchedulearnError):
    """The user has as much of something as one user may have. `allowed` says how much that is."""

    def __init__(self, problem: str, allowed: str) -> None:
        self.allowed = allowed
        super().__init__(f"{problem} (allowed: {allowed})")


class BadPlan(SchedulearnError):
    """A policy's plan breaks an invariant; it is refused whole."""


class StoreError(SchedulearnError):
    """The database cannot be used."""


class StoreAway(StoreError):
    """The database is locked, full, or does not answer. The store has told the log: whoever meets it need not."""


class NewerDatabase(StoreError):
    """The database was written by a newer version of Schedulearn."""


class CorruptDatabase(StoreError):
    """The database file is damaged or is no database of ours."""


class RoleTaken(SchedulearnError):
    """Another process already plays this role on the same data folder."""


class ExecutorError(SchedulearnError):
    """A node could not do what it was told."""
