#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SEND and RECEIVE with pyverbs, rdma-core's verbs for Python (package python3-pyverbs). Over uroce:

  uroce-lab pair examples/pyverbs/send_recv.py

The ends exchange the numbers of their QPs over TCP; then the client sends one message, and the server answers.
"""

import argparse
import json
import socket
import sys
import time

from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.enums import (IBV_ACCESS_LOCAL_WRITE, IBV_GID_TYPE_ROCE_V2, IBV_QPT_RC, IBV_SEND_SIGNALED, IBV_WC_SUCCESS,
                           IBV_WR_SEND)
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

BYTES = 64
SECONDS = 10                # that a completion may take
IPV4 = '0000:0000:0000:0000:0000:ffff:'
PORT = 1                    # an RDMA device's ports count from 1
RC_TIMEOUT, RC_RETRIES = 14, 7


class End:
    """One QP with its memory."""

    def __init__(self, device):
        self.context = Context(name=device)
        self.index, self.gid = self.roce_gid()
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 4)
        self.mr = MR(self.pd, BYTES, IBV_ACCESS_LOCAL_WRITE)
        cap = QPCap(max_send_wr=2, max_recv_wr=2, max_send_sge=1, max_recv_sge=1)
        self.qp = QP(self.pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap), QPAttr(port_num=PORT))

    def roce_gid(self):
        """@return number and text of the first IPv4 address of RoCE v2"""
        for entry in self.context.query_gid_table(self.context.query_port(PORT).gid_tbl_len):
            text = entry.gid_str()
            if entry.gid_type == IBV_GID_TYPE_ROCE_V2 and text.startswith(IPV4):
                return entry.gid_index, text
        sys.exit('send_recv: the device has no IPv4 address for RoCE v2')

    def connect(self, peer):
        route = GlobalRoute(dgid=GID(peer['gid']), sgid_index=self.index, hop_limit=64)
        attr = QPAttr(port_num=PORT)
        attr.dest_qp_num = peer['qpn']
        attr.path_mtu = self.context.query_port(PORT).active_mtu
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = RC_TIMEOUT, RC_RETRIES, RC_RETRIES, 12
        attr.ah_attr = AHAttr(is_global=1, port_num=PORT, gr=route)
        self.qp.to_rts(attr)

    def post_receive(self):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf, BYTES, self.mr.lkey)]))

    def send(self, text):
        data = text.encode().ljust(BYTES)
        self.mr.write(data, BYTES)
        self.qp.post_send(SendWR(opcode=IBV_WR_SEND, num_sge=1, sg=[SGE(self.mr.buf, BYTES, self.mr.lkey)],
                                 send_flags=IBV_SEND_SIGNALED))
        self.completion()

    def completion(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            count, completions = self.cq.poll(1)
            if count:
                if completions[0].status != IBV_WC_SUCCESS:
                    sys.exit(f'send_recv: a work request failed with status {completions[0].status}')
                return
        sys.exit(f'send_recv: no completion for {SECONDS} s')

    def text(self):
        return self.mr.read(BYTES, 0).decode().rstrip()


def tcp_connection(options):
    if options.server:
        return socket.create_connection((options.server, options.port))
    with socket.create_server(('', options.port)) as listener:
        return listener.accept()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-d', '--device', default=None, help='default: the first')
    parser.add_argument('-p', '--port', type=int, default=18521, help='the TCP port (default: %(default)s)')
    parser.add_argument('server', nargs='?', help="the server's address; without one this is the server")
    options = parser.parse_args()
    devices = get_device_list()
    if not devices:
        sys.exit('send_recv: there is no RDMA device; start this program with uroce-run or uroce-lab')
    end = End(options.device or devices[0].name.decode())
    with tcp_connection(options) as tcp, tcp.makefile() as lines:
        def exchange(mine):
            tcp.sendall(json.dumps(mine).encode() + b'\n')
            return json.loads(lines.readline())

        end.connect(exchange({'qpn': end.qp.qp_num, 'gid': end.gid}))
        if options.server:
            exchange('connected')
            end.send('hello')
            end.post_receive()
            exchange('ready for the answer')
            end.completion()
            print(f'client: {end.text()}')
        else:
            end.post_receive()
            exchange('connected')
            end.completion()
            print(f'server: {end.text()}')
            exchange('ready for the answer')
            end.send(f'{end.text()} yourself')
        exchange('done')


if __name__ == '__main__':
    main()
