"""Messages of a conversation, as chat templates and OpenAI-compatible servers write them."""

from __future__ import annotations

from typing import Any, TypedDict


class FunctionCall(TypedDict):
    """The function part of a tool call."""

    name: str
    arguments: Any
    """An object, or its JSON text if whoever sent it did not parse it."""


class _ToolCall(TypedDict):
    function: FunctionCall


class ToolCall(_ToolCall, total=False):
    """A tool call, as the assistant wrote it."""

    id: str


class _Message(TypedDict):
    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str


class Message(_Message, total=False):
    """One message; keys besides `role` and `content` are there where they apply."""

    reasoning_content: str
    """The thoughts of a reasoning model, where they are kept apart from the text."""
    tool_calls: list[ToolCall]
    """The tools that the assistant calls."""
    tool_call_id: str
    """In a tool's message: the id of the call that it answers."""
    name: str
    """In a tool's message: the tool's name; elsewhere the speaker's."""
