"""How well two colors can be told apart."""

from matplotlib.colors import to_rgb


def contrast(one: str, other: str) -> float:
    """Return the contrast, from 1 to 21, as defined by WCAG 2.1."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(color)
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
