"""Puts the program `$REGATTA_PROGRAM` into the wheel, as packaging/build made it."""

import os
import platform
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        machine = platform.machine()
        # Linked statically: it needs no version of any C library.
        platforms = [f"manylinux_2_17_{machine}", f"manylinux2014_{machine}", f"musllinux_1_1_{machine}"]
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + ".".join(platforms)
        build_data["shared_scripts"][os.environ["REGATTA_PROGRAM"]] = "regatta"
