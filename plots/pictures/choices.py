"""Choices that a user has about pictures."""

from enum import StrEnum

DPI = 240  # of PNGs, unless others are asked for: sharp on today's screens


class PictureFormat(StrEnum):
    """Kinds of picture files."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"


class Theme(StrEnum):
    """The ground that a picture is drawn on."""

    LIGHT = "light"
    DARK = "dark"
