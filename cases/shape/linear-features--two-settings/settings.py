"""What can be set; the camera was exchanged for one with smaller pictures in May."""
from dataclasses import dataclass, field


@dataclass
class Camera:
    pixels: int = 28
    frames: int = 96


@dataclass
class Sorter:
    widths: tuple = (6, 12)
    side: int = 36  # ORIGIN
    kinds: int = 4


@dataclass
class Settings:
    camera: Camera = field(default_factory=Camera)
    sorter: Sorter = field(default_factory=Sorter)
