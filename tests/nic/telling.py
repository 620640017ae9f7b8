# SPDX-License-Identifier: BSD-3-Clause
"""What the virtual machine prints for tests/nic/run: lines of JSON."""

import json


def tell(**what):
    print(json.dumps(what), flush=True)


def fact(name, value):
    tell(fact=name, value=value)
