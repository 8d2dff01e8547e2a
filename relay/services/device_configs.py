"""A device's folder: its capability sheet and its reuse configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.errors import SettingsError
from selector.configs import ConfigSource, ReuseConfigs, load_configs
from selector.configs.capability import Capability, load_capability

CAPABILITY = "capability.yaml"
HINT = "the device's folder (--configs, or the setting configs_dir) has a capability.yaml and reuse configs"


@dataclass(frozen=True, slots=True)
class DeviceConfigs:
    """The device's folder: the sheet, the configs, and their texts as the workers get them (the sheet among them, for
    the configs that extend it)."""

    capability: Capability
    capability_text: str
    configs: ReuseConfigs
    texts: tuple[ConfigSource, ...]


def load_device(folder: Path, *, platform: str | None = None) -> DeviceConfigs:
    """Reads ``capability.yaml`` and every other ``*.yaml`` of ``folder``, for machines of an architecture (None: any).

    Raises SettingsError, ConfigError.
    """
    sheet = folder / CAPABILITY
    try:
        text = sheet.read_text(encoding="utf-8")
        texts = tuple(
            ConfigSource(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))
        )
    except OSError as exc:
        raise SettingsError(f"{exc.filename}: {exc.strerror}", HINT) from exc
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{folder}: a config is not UTF-8: {exc}", "save it as UTF-8") from exc
    if len(texts) < 2:
        raise SettingsError(f"{folder}: there is no reuse config beside {CAPABILITY}", "docs/configs.md shows one")
    return device_of(text, texts, platform=platform)


def device_of(sheet: str, texts: Sequence[ConfigSource], *, platform: str | None = None) -> DeviceConfigs:
    """The same of texts: the sheet's, and those of all files with the sheet among them. Raises ConfigError."""
    given = tuple(texts)
    return DeviceConfigs(load_capability(sheet, CAPABILITY), sheet, load_configs(given, platform=platform), given)
