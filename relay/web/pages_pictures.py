"""Small pictures of many numbers, as paths of an SVG: one element a colour, however many runs there are. Pure."""

from __future__ import annotations

from typing import Any

from relay.web.pages_text import chip

HEIGHT = 20.0


def spark(parts: list[dict[str, int]]) -> dict[str, Any]:
    """Bars of ``[{good, bad}]``, the bad above the good: ``{width, height, good, bad, none, said}`` with paths."""
    top = max([1, *(part["good"] + part["bad"] for part in parts)])
    good, bad, none = "", "", ""
    for n, part in enumerate(parts):
        low, high = HEIGHT * part["good"] / top, HEIGHT * part["bad"] / top
        if part["good"]:
            good += f"M{5 * n} {HEIGHT:g}v-{low:.1f}h4V{HEIGHT:g}z"
        if part["bad"]:
            bad += f"M{5 * n} {HEIGHT - low:.1f}v-{high:.1f}h4v{high:.1f}z"
        if not part["good"] and not part["bad"]:
            none += f"M{5 * n} {HEIGHT:g}v-1h4v1z"
    passed, failed = sum(part["good"] for part in parts), sum(part["bad"] for part in parts)
    said = f"{passed} passed, {failed} did not; oldest first: " + ", ".join(f"{p['good']}+{p['bad']}" for p in parts)
    return {"width": 5 * len(parts), "height": HEIGHT, "good": good, "bad": bad, "none": none, "said": said}


def strip(marks: list[dict[str, Any]]) -> dict[str, Any]:
    """Newest runs as bars, oldest first: a failure is tall, a success half as tall, what says nothing low, so that the
    form says it without the colour. ``{width, height, paths: {class: path}, said}``."""
    heights = {"bad": 20, "good": 11, "live": 11, "warn": 15}
    paths: dict[str, str] = {}
    words: list[str] = []
    for n, mark in enumerate(marks):
        look, _, label = chip(mark["word"])
        tall = heights.get(look, 4)
        paths[look] = paths.get(look, "") + f"M{9 * n} {HEIGHT:g}v-{tall}h7v{tall}z"
        words.append(label)
    return {"width": max(1, 9 * len(marks)), "height": HEIGHT, "paths": paths, "said": ", ".join(words)}
