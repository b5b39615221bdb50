"""Arguments for tools as their own schemas have them: fitting ones, too large ones, wild ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]
LARGE = 5_000_000
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=40)
WILD = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def branches(schema: Schema) -> list[Schema]:
    """What a value may be, one way after the other."""
    return [
        each for one in schema.get("anyOf", [schema]) for each in (branches(one) if "anyOf" in one else [one])
    ]


def unbounded(schema: Schema, path: str) -> Iterator[str]:
    """The places of a schema where a value may have any size."""
    for one in branches(schema):
        kind = one.get("type")
        if kind == "string" and "enum" not in one and "maxLength" not in one:
            yield path
        has_floor = "minimum" in one or "exclusiveMinimum" in one
        if kind in ("number", "integer") and not (has_floor and "maximum" in one):
            yield path
        if kind == "array":
            yield from [] if "maxItems" in one else [path]
            yield from unbounded(one["items"], f"{path}[]")
        if kind == "object":
            yield from [] if "maxProperties" in one else [path]
            inner = one.get("additionalProperties")
            yield from unbounded(inner, f"{path}{{}}") if isinstance(inner, dict) else []


def large(schema: Schema) -> Iterator[object]:
    """For each way that a value may be, one that is far too large."""
    for one in branches(schema):
        kind = one.get("type")
        if kind == "string":
            yield "x" * LARGE
        if kind in ("number", "integer"):
            yield 10**400 if kind == "integer" else 1e305
        if kind == "array":
            yield [next(iter(fitting_values(one["items"])))] * (LARGE // 100)
            yield from ([inner] * one.get("minItems", 1) for inner in large(one["items"]))
        if kind == "object":
            yield {str(number): 1 for number in range(LARGE // 100)}
            yield {"x": "x" * LARGE}
            yield {"x" * LARGE: "x"}
            yield {"x": ["y" * 1000] * (LARGE // 1000)}


def fitting(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that fit a schema, small ones."""
    return st.one_of([_fitting(one) for one in branches(schema)])


def fitting_values(schema: Schema) -> list[object]:
    """A value for each way that it may be."""
    return [_one(one) for one in branches(schema)]


def _one(schema: Schema) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return {"string": "x", "integer": low, "number": low, "boolean": False, "null": None, "object": {},
            "array": [0] * schema.get("minItems", 0)}[schema["type"]]  # fmt: skip


def _fitting(schema: Schema) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 1000)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=min(40, schema.get("maxLength", 40))), "boolean": st.booleans(), "null": st.none(),
        "integer": st.integers(int(low), int(high)), "object": st.dictionaries(st.text(max_size=8), PLAIN, max_size=3),
        "number": st.floats(low, high, exclude_min="exclusiveMinimum" in schema),
    }  # fmt: skip
    if schema["type"] == "array":
        items = fitting(schema["items"])
        return st.lists(items, min_size=schema.get("minItems", 0), max_size=min(4, schema.get("maxItems", 4)))
    return kinds[schema["type"]]


def odd(schema: Schema, known: Mapping[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of a tool that fit, but for one that is anything. known: values that lead further than others."""
    properties: dict[str, Any] = schema["properties"]
    values = {
        name: st.sampled_from(known[name]) if name in known else fitting(one)
        for name, one in properties.items()
    }
    required = {name: values[name] for name in schema.get("required", [])}
    optional = {name: values[name] for name in properties if name not in required}

    def with_one_wild(arguments: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.tuples(st.sampled_from([*properties, "more"]), WILD).map(
            lambda one: {**arguments, one[0]: one[1]}
        )

    fits = st.fixed_dictionaries(required, optional=optional)
    return fits | fits.flatmap(with_one_wild)
