"""What tools take: arguments that they name, of bounded size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from mcp_types import Tool
from pydantic import AfterValidator, Field

from reflexarc.errors import ConfigError

MAX_DATA = 100_000
MAX_DOCUMENT = 1_000_000
MAX_TOLD = 40


def _bounded(most: int) -> AfterValidator:
    """Refuse data that is longer than so many characters as JSON."""

    def check(value: Any) -> Any:
        try:
            size = len(json.dumps(value))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if size > most:
            raise ValueError(f"it has {size:,} characters as JSON, more than {most:,}")
        return value

    return AfterValidator(check)


Key = Annotated[str, Field(max_length=200)]
Data = Annotated[dict[Key, Any], Field(max_length=1_000), _bounded(MAX_DATA)]
Document = (
    Annotated[str, Field(max_length=MAX_DOCUMENT)]
    | Annotated[dict[Key, Any], Field(max_length=1_000), _bounded(MAX_DOCUMENT)]
)
Ref = Annotated[str, Field(max_length=200)] | Annotated[int, Field(ge=0, le=2**63)]
Value = Annotated[str, Field(max_length=MAX_DATA)] | Annotated[float, Field(ge=-1e300, le=1e300)] | bool
Steps = Annotated[list[Data], Field(max_length=1_000), _bounded(MAX_DOCUMENT)]
Environment = Annotated[dict[Key, Annotated[str, Field(max_length=10_000)]], Field(max_length=100)]


def closed(tool: Tool) -> Tool:
    """The tool, said to take no arguments but those that it names."""
    return tool.model_copy(update={"input_schema": {**tool.input_schema, "additionalProperties": False}})


def require_known(tools: Sequence[Tool], name: str, arguments: Mapping[str, Any]) -> None:
    """Raise ConfigError for an argument that the tool doesn't name: what is dropped may be what matters."""
    for tool in tools:
        if tool.name == name:
            known = tool.input_schema["properties"]
            if unknown := [argument for argument in arguments if argument not in known]:
                named = ", ".join(repr(argument[:MAX_TOLD]) for argument in unknown[:5])
                raise ConfigError(f"{name} takes no {named}, but {', '.join(known) or 'nothing'}")
