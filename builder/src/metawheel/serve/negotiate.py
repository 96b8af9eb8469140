"""Which form of a page a client wants: its Accept header, as RFC 9110 (12.5.1) and PEP 691 read it. Pure."""

from __future__ import annotations

from functools import lru_cache

from simple_repository.content_negotiation import Format

# A client that takes several forms equally gets the first of these; one that takes anything at all gets the last.
_OFFERED = (Format.JSON_V1, Format.HTML_V1, Format.HTML_LEGACY)
_ALIASES = {  # PEP 691, version + format selection
    "application/vnd.pypi.simple.latest+json": Format.JSON_V1.value,
    "application/vnd.pypi.simple.latest+html": Format.HTML_V1.value,
}


@lru_cache(maxsize=128)
def choose_format(accept: str) -> Format | None:
    """The form that an Accept header ranks highest; None where it takes none of them."""
    if not accept.strip():
        return Format.HTML_LEGACY
    weights = _weights(accept)
    ranked = []
    for number, form in enumerate(_OFFERED):
        ranges = (form.value, f"{form.value.partition('/')[0]}/*", "*/*")
        found = next((span for span in ranges if span in weights), None)  # the most specific one counts
        if found is not None and weights[found] > 0:
            order = number if found == "*/*" else -number
            ranked.append((weights[found], found != "*/*", order, form))
    return max(ranked, key=lambda entry: entry[:3])[3] if ranked else None


def _weights(accept: str) -> dict[str, float]:
    """Media ranges and their q-values; what cannot be read is left out."""
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        media, *parameters = (part.strip() for part in item.split(";"))
        given = next((value for value in parameters if value.startswith("q=")), "q=1")
        try:
            weight = float(given.removeprefix("q="))
        except ValueError:
            continue
        if media and 0 <= weight <= 1:
            media = _ALIASES.get(media, media)
            weights[media] = max(weight, weights.get(media, 0.0))
    return weights
