# SPDX-License-Identifier: BSD-3-Clause
"""librpma's examples, with the arguments that its run-all-examples.sh gives them. Each says what it has got from the other side.

Debian has librpma without them: docs/programs.md says which programs the rows look for.
"""

import os
import re
import time

from rows import READY_SECONDS, SERVER, Row, both, cm_listens, no_listener_is_left, require, until
from uroce_lab import pairs

BUILT = {"librpma's examples": 'rpma-02-read-to-volatile-client'}
PORT = '7204'
ENGLISH, SPANISH = 'Hello world!', '¡Hola Mundo!'
WORDS = ('1st_word', '2nd_word', '3rd_word')
FIRST = 7
TRANSLATED = (f'Next value: {ENGLISH}', f'Translation: {SPANISH}')
SEEDS = {'8': 'Chet', '9': 'Piotr', '11': 'Piotr', '12': 'Lukasz'}      # of rand(), and the names that clients pick with them

# For a file as persistent memory. Its name keeps the examples from asking for memory on demand (docs/programs.md).
FORCED = ('env', 'PMEM_IS_PMEM_FORCE=1')
FILE_BYTES = 1 << 16


def numbers(rounds):
    """What the two sides say of a number that goes to and fro and is one more each time."""
    client = [f'alue {verb}: {FIRST + i + more}' for i in range(rounds) for verb, more in (('sent', 0), ('received', 1))]
    server = [f'alue {verb}: {FIRST + i + more}' for i in range(rounds) for verb, more in (('received', 0), ('sent', 1))]
    return (str(FIRST), '3'), client, server


# Example: the client's arguments, what the client says, what the server says.
PAIRS = {
    '01-connection': ((), ['Received a message: Hello client!'], ['Received a message: Hello server!']),
    '02-read-to-volatile': ((), ['Read a message: Hello client!'], []),
    '03-read-to-persistent': ((), TRANSLATED, [f'New value: {ENGLISH}']),
    '04-write-to-persistent': ((), TRANSLATED, [f'New value: {ENGLISH}']),
    '05-flush-to-persistent': ((), TRANSLATED, [f'New value: {ENGLISH}']),
    '07-atomic-write': (WORDS, [], WORDS),
    '08-messages-ping-pong': numbers(2),        # of 3 rounds these do two
    '08srq-simple-messages-ping-pong-with-srq': numbers(3),
    '09-flush-to-persistent-GPSPM': ((), TRANSLATED, [f'New value: {ENGLISH}']),
    '09scch-flush-to-persistent-GPSPM': ((), TRANSLATED, [f'New value: {ENGLISH}']),
    '10-send-with-imm': (('1234', 'word'), [], ["Received value 'word' with immediate data '1234'"]),
    '11-write-with-imm': (('1234',), [], ["The value '1234' was written together with immediate data '1234'"]),
    '12-receive-completion-queue': numbers(2),
    '12scch-receive-completion-queue': numbers(2),
}
WITH_FILES = ('03-read-to-persistent', '04-write-to-persistent', '05-flush-to-persistent', '09-flush-to-persistent-GPSPM',
              '09scch-flush-to-persistent-GPSPM')


def side(example, which, *arguments):
    return [f'rpma-{example}-{which}', SERVER, PORT, *arguments]


def require_said(said, what, *sides):
    """All of `what`, in this order."""
    require(re.search('.*?'.join(re.escape(part) for part in what), said, re.S), f'not said: {what}', *sides)


def examples(lab, seconds):
    for example, (arguments, client, server) in PAIRS.items():
        sides = both(lab, side(example, 'server'), side(example, 'client', *arguments), cm_listens(lab), seconds)
        require_said(sides[0].text(), server, *sides)
        require_said(sides[1].text(), client, *sides)


def files(lab, seconds):
    """The server has its memory in a file, and what was written is in it afterwards; with one run more the client's next text is."""
    folder = os.path.join(lab.data['dir'], 'rpma/dev')
    os.makedirs(folder, exist_ok=True)
    for example in WITH_FILES:
        paths = [os.path.join(folder, f'dax-{example}-{which}') for which in ('server', 'client')]
        for path in paths:
            with open(path, 'wb') as f:
                f.truncate(FILE_BYTES)
        direct = ('on',) if example.startswith('05') else ()
        for text in (ENGLISH, SPANISH):
            sides = both(lab, [*FORCED, *side(example, 'server', paths[0], *direct)], [*FORCED, *side(example, 'client', paths[1])],
                         cm_listens(lab), seconds)
            require_said(sides[0].text(), [f'New value: {text}'], *sides)
            with open(paths[0], 'rb') as f:
                require(text.encode() in f.read(), f'{example}: {text} is not in the file', *sides)


def served_by_one(lab, server, clients, seconds):
    """Several clients at a time, and a server that ends by itself. @return their sides, the server's first"""
    no_listener_is_left(lab)
    end = time.monotonic() + seconds
    sides = [pairs.Side(lab, 'h1', server)]
    try:
        until('the server does not listen', lambda: cm_listens(lab)(sides[0]) or sides[0].child.poll() is not None, READY_SECONDS, *sides)
        sides += [pairs.Side(lab, 'h2', client) for client in clients]
        for one in reversed(sides):
            one.wait(end)
    finally:
        for one in sides:
            one.kill()
    require(all(one.status == 0 for one in sides), 'not all ended with status 0', *sides)
    return sides


def several(lab, seconds):
    for example in ('06-multiple-connections', '06scch-multiple-connections'):
        sides = served_by_one(lab, side(example, 'server'), [side(example, 'client', seed) for seed in SEEDS], seconds)
        require(sorted(re.findall('^- (.*)', sides[0].text(), re.M)) == sorted(SEEDS.values()), example, *sides)
    example = '13-messages-ping-pong-with-srq'
    starts = (1, 5, 10)
    sides = served_by_one(lab, side(example, 'server', '3'), [side(example, 'client', str(start), '3') for start in starts], seconds)
    for start, one in zip(starts, sides[1:]):
        require_said(one.text(), [f'value received: {start + i}' for i in (1, 2, 3)], *sides)
    require(sides[0].text().count('value received') == 3 * len(starts), example, *sides)


ROWS = [Row(f'rpma {name}', {}, run, seconds=seconds, daily=False, built=BUILT)
        for name, run, seconds in (('examples', examples, 20), ('files', files, 20), ('several', several, 60))]
