"""Resources are a named map, so that another accelerator is a new name and not a new schema."""

from collections.abc import ItemsView, Iterator, Mapping

CPUS = "cpus"  # cores, fractional
MEMORY = "memory"  # bytes
GPUS = "gpus"  # whole devices, each with an id
EPSILON = 1e-9  # amounts closer than that are equal: sums of fractions never add up exactly


class Resources(Mapping[str, float]):
    """An immutable, hashable map from a resource's name to an amount. What is absent is 0."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, float] | None = None, /, **named: float) -> None:
        both = {**(amounts or {}), **named}
        self._amounts = {name: float(both[name]) for name in sorted(both) if both[name]}
        self._hash = hash(tuple(self._amounts.items()))

    def __getitem__(self, name: str) -> float:
        return self._amounts.get(name, 0.0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def items(self) -> ItemsView[str, float]:
        return self._amounts.items()  # decisions spend much of their time here, and Mapping's own is slow

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self._amounts == other._amounts if isinstance(other, Resources) else NotImplemented

    def __repr__(self) -> str:
        return f"Resources({self._amounts})"

    def __add__(self, other: "Resources") -> "Resources":
        return Resources({n: self[n] + other[n] for n in {*self, *other}})

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources({n: self[n] - other[n] for n in {*self, *other}})

    def __mul__(self, times: float) -> "Resources":
        return Resources({n: a * times for n, a in self.items()})

    def fits_in(self, free: "Resources") -> bool:
        """Whether each amount is there. A hair of rounding is forgiven: sums of fractions never add up exactly."""
        return all(amount <= free[name] + EPSILON * max(1.0, amount) for name, amount in self.items())
