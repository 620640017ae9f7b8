#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The image, the compose file and the Kubernetes example, with podman in place of docker and of a cluster. As root; some ten minutes.

  test_podman.py

The image is built by packaging/container/Dockerfile. Its base, debian:bookworm, is the one that podman has; if it has none, debootstrap makes it.
UROCE_TEST_IMAGE=NAME takes an image that is there. There is no cluster: the containers of uroce.yaml and pod.yaml are run by podman with the security contexts,
volumes and groups that the files have, on two nodes that are network namespaces; the CDI file is read by podman itself.
"""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../..'))
CONTAINER, KUBERNETES = (os.path.join(ROOT, 'packaging', name) for name in ('container', 'kubernetes'))
ID = os.getpid()
IMAGE = os.environ.get('UROCE_TEST_IMAGE') or f'localhost/uroce-test-{ID}'
BASE = 'docker.io/library/debian'
MIRROR = os.environ.get('UROCE_MIRROR', 'http://deb.debian.org/debian')
CDI = '/run/cdi'
SKIPPED = 77
LIMIT = 20000               # of descriptors and of processes, at most
BUILD_SECONDS, SECONDS = 2400, 120


def run(*words, seconds=SECONDS, **options):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=seconds,
                          check=False, **options)
    return done.returncode, done.stdout


def need(*words, **options):
    status, said = run(*words, **options)
    if status:
        raise AssertionError(f'{" ".join(words)}: status {status}\n{said}')
    return said


def lacking():
    if os.geteuid() != 0:
        return 'it needs root'
    for program in ('podman', 'podman-compose', 'ip'):
        if shutil.which(program) is None:
            return f'{program} is not installed (packages podman, podman-compose, runc)'
    status, said = run('podman', 'info')
    return f'podman does not run here: {said.strip()}' if status else None


def our_limits(folder):
    """
    podman gives containers more descriptors and processes than we may have ourselves, which it can't where root isn't all of root. crun refuses a mixture of
    both versions of cgroups, runc doesn't.
    """
    limits = []
    for name, number in (('nofile', resource.RLIMIT_NOFILE), ('nproc', resource.RLIMIT_NPROC)):
        most = min(resource.getrlimit(number)[1], LIMIT)
        limits.append(f'"{name}={most}:{most}"')
    path = os.path.join(folder, 'containers.conf')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'[containers]\ndefault_ulimits = [{", ".join(limits)}]\n')
        if shutil.which('runc'):
            f.write('[engine]\nruntime = "runc"\n')
    os.environ['CONTAINERS_CONF'] = path


def make_base():
    if run('podman', 'image', 'exists', f'{BASE}:bookworm')[0] == 0 and run('podman', 'image', 'exists', f'{BASE}:bookworm-slim')[0] == 0:
        return
    with tempfile.TemporaryDirectory(prefix='uroce-base-', dir='/var/tmp') as folder:
        need('debootstrap', '--variant=minbase', 'bookworm', f'{folder}/root', MIRROR, seconds=BUILD_SECONDS)
        need('sh', '-c', f'tar -C {folder}/root -c . | podman import - {BASE}:bookworm', seconds=SECONDS)
    need('podman', 'tag', f'{BASE}:bookworm', f'{BASE}:bookworm-slim')


def make_image():
    """From the files that git knows, as somebody has them who has just cloned."""
    if 'UROCE_TEST_IMAGE' in os.environ:
        return
    make_base()
    with tempfile.TemporaryDirectory(prefix='uroce-image-', dir='/var/tmp') as folder:
        need('sh', '-c', f'cd {ROOT} && git ls-files -z | tar --null --ignore-failed-read -T - -c | tar -C {folder} -x')
        need('podman', 'build', '--network', 'host', '-f', f'{folder}/packaging/container/Dockerfile', '-t', IMAGE, folder, seconds=BUILD_SECONDS)


class Compose(unittest.TestCase):
    def test_two_hosts(self):
        with tempfile.TemporaryDirectory(prefix='uroce-compose-') as folder:
            with open(os.path.join(CONTAINER, 'compose.yaml'), encoding='utf-8') as f:
                text = f.read()
            self.assertEqual(text.count('image: uroce\n'), 1)
            with open(os.path.join(folder, 'compose.yaml'), 'w', encoding='utf-8') as f:
                f.write(text.replace('image: uroce\n', f'image: {IMAGE}\n').replace('name: uroce\n', f'name: uroce-{ID}\n').replace('../..', ROOT))
            compose = ('podman-compose', '-p', f'uroce-{ID}', '-f', f.name)
            try:
                # Its own status says nothing: that of podman-compose 1.0.3 is 255 when all containers have ended well.
                said = run(*compose, 'up', '--no-build', '--abort-on-container-exit', cwd=folder)[1]
            finally:
                run(*compose, 'down', cwd=folder)
                run('podman', 'network', 'rm', '-f', f'uroce-{ID}_roce')
        # Both ends print what they have measured.
        self.assertEqual(len([line for line in said.splitlines() if line.split()[:2] == ['65536', '5000']]), 2, said)
        self.assertNotRegex(said, r'exit code: [^0]')


class Node:
    """A node of the cluster: a network namespace, and folders in the place of those of a host."""

    def __init__(self, number, stack, objects):
        self.number, self.address = number, f'10.77.0.{number}'
        self.namespace = f'uroce-node{ID}-{number}'
        self.root = stack.enter_context(tempfile.TemporaryDirectory(prefix=f'uroce-node{number}-', dir='/var/tmp'))
        need('ip', 'netns', 'add', self.namespace)
        stack.callback(run, 'ip', 'netns', 'delete', self.namespace)
        self.pod = objects['DaemonSet']['spec']['template']['spec']
        self.host = {}
        for volume in self.pod['volumes']:
            path = f'{self.root}/{volume["name"]}'
            os.makedirs(path)
            self.host[volume['name']] = path
            if 'configMap' in volume:
                for name, content in objects['ConfigMap']['data'].items():
                    with open(os.path.join(path, name), 'w', encoding='utf-8') as f:
                        f.write(content)
        self.paths = {volume['hostPath']['path']: self.host[volume['name']] for volume in self.pod['volumes'] if 'hostPath' in volume}

    def container(self, spec):
        """The command that runs a container of the DaemonSet."""
        words = ['podman', 'run', '--rm', '--name', f'uroce-{ID}-{spec["name"]}-{self.number}', '--network', f'ns:/run/netns/{self.namespace}']
        context = spec.get('securityContext', {})
        if context.get('allowPrivilegeEscalation') is False:
            words += ['--security-opt', 'no-new-privileges']
        if context.get('readOnlyRootFilesystem'):
            words += ['--read-only', '--read-only-tmpfs=false']
        for option, key in (('--cap-drop', 'drop'), ('--cap-add', 'add')):
            for capability in context.get('capabilities', {}).get(key, []):
                words += [option, capability]
        variables = {each['name']: each['value'] for each in spec.get('env', [])}
        for name, content in variables.items():
            words += ['-e', f'{name}={content}']
        for mount in spec['volumeMounts']:
            words += ['-v', f'{self.host[mount["name"]]}:{mount["mountPath"]}']
        command = [*spec['command'], *spec.get('args', [])]
        for name, content in variables.items():
            command = [word.replace(f'$({name})', content) for word in command]
        return [*words, '--entrypoint', json.dumps(command[:1]), IMAGE, *command[1:]]

    def start(self, stack):
        for spec in self.pod['initContainers']:
            need(*self.container(spec))
        for spec in self.pod['containers']:
            log = stack.enter_context(open(f'{self.root}/{spec["name"]}.log', 'w+', encoding='utf-8'))
            child = subprocess.Popen(self.container(spec), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            stack.callback(child.wait, SECONDS)
            stack.callback(run, 'podman', 'stop', '-t', '5', f'uroce-{ID}-{spec["name"]}-{self.number}')
            end = time.monotonic() + SECONDS
            while not os.path.exists(f'{self.paths["/run/uroce"]}/uroced.sock'):
                if child.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    raise AssertionError(f'the daemon of node {self.number}: {log.read()}')
                time.sleep(0.1)
        # What the init container put onto the node is what the runtime reads; both nodes' runtimes are one here.
        with open(f'{self.paths["/var/run/cdi"]}/uroce.json', encoding='utf-8') as f:
            device = json.load(f)
        device['kind'] = f'uroce{ID}.local/roce{self.number}'
        for mount in device['devices'][0]['containerEdits']['mounts']:
            outer = next(path for path in self.paths if (mount['hostPath'] + '/').startswith(path + '/'))
            mount['hostPath'] = self.paths[outer] + mount['hostPath'][len(outer):]
        os.makedirs(CDI, exist_ok=True)
        path = f'{CDI}/uroce-{ID}-{self.number}.json'
        with open(path, 'w', encoding='utf-8') as f:
            json.dump(device, f)
        stack.callback(os.unlink, path)
        self.device = f'{device["kind"]}={device["devices"][0]["name"]}'

    def user_pod(self, pod, command, group=True):
        """The command that runs the user's pod on this node, with another command."""
        spec = pod['spec']
        context, inner = spec['securityContext'], spec['containers'][0]['securityContext']
        words = ['podman', 'run', '--rm', '--device', self.device, '--user', f'{context["runAsUser"]}:{context["runAsGroup"]}']
        if group:
            words += ['--group-add', str(context['supplementalGroups'][0])]
        if inner['allowPrivilegeEscalation'] is False:
            words += ['--security-opt', 'no-new-privileges']
        for capability in inner['capabilities']['drop']:
            words += ['--cap-drop', capability]
        return [*words, '--network', f'ns:/run/netns/{self.namespace}', '--entrypoint', json.dumps(command[:1]), IMAGE, *command[1:]]


class Kubernetes(unittest.TestCase):
    def test_pods_on_two_nodes(self):
        import yaml                         # pylint: disable=import-outside-toplevel
        with open(os.path.join(KUBERNETES, 'uroce.yaml'), encoding='utf-8') as f:
            objects = {document['kind']: document for document in yaml.safe_load_all(f)}
        with open(os.path.join(KUBERNETES, 'pod.yaml'), encoding='utf-8') as f:
            pod = yaml.safe_load(f)
        with contextlib.ExitStack() as stack:
            nodes = [Node(number, stack, objects) for number in (1, 2)]
            need('ip', 'link', 'add', 'eth0', 'netns', nodes[0].namespace, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', nodes[1].namespace)
            for node in nodes:
                for words in (('link', 'set', 'lo', 'up'), ('address', 'add', f'{node.address}/24', 'dev', 'eth0'), ('link', 'set', 'eth0', 'up')):
                    need('ip', '-n', node.namespace, *words)
            for node in nodes:
                node.start(stack)
                # As the example has it.
                said = need(*node.user_pod(pod, pod['spec']['containers'][0]['command']))
                self.assertIn('PORT_ACTIVE', said)
            self.assertIn('no permission', run(*nodes[0].user_pod(pod, ['ibv_devinfo', '-d', 'uroce0'], group=False))[1])
            program = ['ib_write_bw', '-d', 'uroce0', '-F', '-n', '200']
            server = subprocess.Popen(nodes[0].user_pod(pod, program), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            stack.callback(server.kill)
            again = 'for i in 1 2 3 4 5 6 7 8 9; do sleep 1; "$@" && exit; done; exit 1'
            client = need(*nodes[1].user_pod(pod, ['sh', '-c', again, 'sh', *program, nodes[0].address]))
            self.assertRegex(client, r'(?m)^ 65536 +200 ')
            self.assertRegex(server.communicate(timeout=SECONDS)[0], r'(?m)^ 65536 +200 ')
            self.assertEqual(server.returncode, 0)


def main():
    if why := lacking():
        print(f'skipped: {why}')
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix='uroce-podman-') as folder:
        our_limits(folder)
        return test()


def test():
    try:
        make_image()
        return 0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1
    finally:
        if 'UROCE_TEST_IMAGE' not in os.environ:
            run('podman', 'rmi', '-f', IMAGE)


if __name__ == '__main__':
    sys.exit(main())
