# SPDX-License-Identifier: BSD-3-Clause
"""docs/schemas: what commands print as JSON."""

import json
import os

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../docs/schemas')


def fits(value, name):
    """ValidationError unless docs/schemas/NAME.json describes the value. @return the value"""
    import jsonschema                   # pylint: disable=import-outside-toplevel
    with open(os.path.join(FOLDER, name + '.json'), encoding='utf-8') as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
    return value
