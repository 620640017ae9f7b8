/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce doctor: rules of firewalls, and the path to a peer. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "uroce.h"

enum { ROCE_PORT = 4791, LINE_BYTES = 512, RULES_MAX = 100000 /* lines that are read */ };

/* ---- Firewalls ---- */
struct rules {
	bool readable;
	bool accepted;               /* a rule accepts the port by name */
	bool policy_drop;            /* a chain of input or forward drops what no rule accepts */
	char dropping[LINE_BYTES];   /* the rule that drops the port by name; "": none */
};

static bool
has_word(const char *line, const char *const *words)
{
	for (; *words != NULL; words++)
		if (strcasestr(line, *words) != NULL)
			return true;
	return false;
}

/* Look at a line of `nft list ruleset` or `iptables-save`. */
static void
take_rule(struct rules *r, const char *line)
{
	static const char *const drops[] = { "drop", "reject", NULL }, *const chains[] = { "hook input", "hook forward", ":INPUT DROP", ":FORWARD DROP", NULL };

	if (strstr(line, "4791") != NULL) {
		r->accepted = r->accepted || strcasestr(line, "accept") != NULL;
		if (r->dropping[0] == '\0' && has_word(line, drops))
			snprintf(r->dropping, sizeof(r->dropping), "%.*s", (int)strcspn(line, "\n"), line + strspn(line, " \t"));
	}
	if (has_word(line, chains) && (strstr(line, "policy drop") != NULL || line[0] == ':'))
		r->policy_drop = true;
}

/* Read what a program prints. */
static void
read_rules(struct rules *r, char *const args[])
{
	posix_spawn_file_actions_t actions;
	char line[LINE_BYTES];
	int fds[2], status = -1;
	pid_t pid;
	FILE *f;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, args[0], &actions, NULL, args, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	f = fdopen(fds[0], "r");
	for (unsigned int i = 0; pid > 0 && f != NULL && i < RULES_MAX && fgets(line, sizeof(line), f) != NULL; i++)
		take_rule(r, line);
	if (f != NULL)
		fclose(f);
	else
		close(fds[0]);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		r->readable = true;
}

void
check_firewall(void)
{
	struct rules r = { 0 };

	read_rules(&r, (char *[]){ (char[]){ "nft" }, (char[]){ "list" }, (char[]){ "ruleset" }, NULL });
	read_rules(&r, (char *[]){ (char[]){ "iptables-save" }, NULL });
	read_rules(&r, (char *[]){ (char[]){ "ip6tables-save" }, NULL });
	if (r.dropping[0] != '\0')
		found("firewall", NOTE, "let UDP port 4791 pass, in both directions: nft insert rule inet TABLE CHAIN udp dport 4791 accept",
		      "a rule stops RoCE v2: %s (ports of AF_PACKET and AF_XDP get packets before this machine's rules; what it forwards doesn't)", r.dropping);
	else if (r.policy_drop && !r.accepted)
		found("firewall", NOTE, "nft add rule inet TABLE CHAIN udp dport 4791 accept, if packets of RoCE v2 come this way",
		      "what no rule accepts is dropped, and no rule names UDP port 4791 (ports of AF_PACKET and AF_XDP get packets before this machine's "
		      "rules; what it forwards doesn't)");
	else if (r.readable)
		found("firewall", GOOD, NULL, "no rule of this machine stops UDP port 4791");
	else
		found("firewall", NOTE, "as root, with nft or iptables-save installed", "the rules of this machine can't be read");
}

/* ---- The path to a peer ---- */
/* @return the MTU that the kernel knows for the path to @p peer; 0: there is no route, or @p peer is no address. */
static int
known_mtu(const char *peer)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT) };
	bool is_v6 = inet_pton(AF_INET6, peer, &v6.sin6_addr) == 1;
	int fd, mtu = 0;
	socklen_t n = sizeof(mtu);

	if (!is_v6 && inet_pton(AF_INET, peer, &v4.sin_addr) != 1)
		return 0;
	fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (connect(fd, is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4, is_v6 ? sizeof(v6) : sizeof(v4)) != 0 ||
	    getsockopt(fd, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_MTU : IP_MTU, &mtu, &n) != 0)
		mtu = 0;
	close(fd);
	return mtu;
}

void
check_peer(const char *peer)
{
	int mtu = known_mtu(peer), most, n;

	if (mtu == 0) {
		found("peer", FAULT, "ip route get ADDRESS; give this machine an address in the peer's network", "%s: the kernel has no route to it", peer);
		return;
	}
	most = roce_mtu(mtu);
	for (n = most; n >= 256; n /= 2) {
		enum path carries = path_carries(peer, NULL, n + ROCE_HEADERS);

		if (carries == PATH_UNKNOWN) {
			found("peer", NOTE, "apt-get install iputils-ping", "%s: what the path carries can't be found out without ping", peer);
			return;
		}
		if (carries == PATH_YES)
			break;
	}
	if (n < 256)
		found("peer", NOTE, "ping ADDRESS; is it up, and does a firewall let ICMP pass? A port that is taken from the kernel answers no ping of the kernel's",
		      "%s doesn't answer a ping", peer);
	else if (n < most)
		found("peer", FAULT, "a larger MTU on the way (switches, tunnels), or a smaller one of the ports: key mtu in uroced.conf(5)",
		      "%s: the path carries RoCE MTU %d, the interface would send %d: larger packets get lost", peer, n, most);
	else
		found("peer", most < 4096 ? NOTE : GOOD, "for more, a larger MTU of both interfaces and of what is between: 4200 gives RoCE MTU 4096",
		      "%s: the path carries RoCE MTU %d", peer, n);
}
