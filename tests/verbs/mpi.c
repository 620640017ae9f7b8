/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI programs do, with everything that arrives compared: messages of all sizes and so of all protocols below, several under way at
 * once, collective operations, one-sided access. It knows nothing of uroce. Needs two processes or more; status 0: all was right.
 *
 *   mpi [FILE]     all of it again and again, until there is such a file
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 4 << 20, ROUNDS = 20, AT_ONCE = 32, WORDS = 65536, ADDITIONS = 100 };

static int rank, size, turns;

static void
check(int right, const char *what, size_t n)
{
	if (right)
		return;
	fprintf(stderr, "rank %d: %s of %zu is wrong\n", rank, what, n);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void
fill(unsigned char *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(seed * 31 + i * 7 + i / 256);
}

static int
is_filled(const unsigned char *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(seed * 31 + i * 7 + i / 256))
			return 0;
	return 1;
}

/** Between neighbours: there and back. */
static void
ping_pong(unsigned char *b, size_t n)
{
	const unsigned int seed = (unsigned int)n;
	double start = MPI_Wtime();
	int peer = rank ^ 1;

	for (unsigned int i = 0; i < ROUNDS && peer < size; i++) {
		if (rank < peer) {
			fill(b, n, seed + i);
			MPI_Send(b, (int)n, MPI_BYTE, peer, (int)i, MPI_COMM_WORLD);
			memset(b, 0, n);
		}
		MPI_Recv(b, (int)n, MPI_BYTE, peer, (int)i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(is_filled(b, n, seed + i), "a message", n);
		if (rank > peer)
			MPI_Send(b, (int)n, MPI_BYTE, peer, (int)i, MPI_COMM_WORLD);
	}
	if (rank == 0 && turns == 0)
		printf("%8zu bytes: %10.2f us one way\n", n, (MPI_Wtime() - start) * 1e6 / ROUNDS / 2);
}

/** From everybody to the next one. */
static void
many_at_once(unsigned char *b, size_t n)
{
	MPI_Request r[2 * AT_ONCE];
	int next = (rank + 1) % size, last = (rank + size - 1) % size;

	for (int i = 0; i < AT_ONCE; i++)
		MPI_Irecv(b + i * n, (int)n, MPI_BYTE, last, i, MPI_COMM_WORLD, &r[i]);
	for (int i = 0; i < AT_ONCE; i++) {
		fill(b + (AT_ONCE + i) * n, n, (unsigned int)(rank * AT_ONCE + i));
		MPI_Isend(b + (AT_ONCE + i) * n, (int)n, MPI_BYTE, next, i, MPI_COMM_WORLD, &r[AT_ONCE + i]);
	}
	MPI_Waitall(2 * AT_ONCE, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < AT_ONCE; i++)
		check(is_filled(b + i * n, n, (unsigned int)(last * AT_ONCE + i)), "one of many messages", n);
}

static void
collective(void)
{
	int *out = malloc(WORDS * sizeof(int) * (size_t)size), *in = malloc(WORDS * sizeof(int) * (size_t)size);
	long one = rank + 1, sum = 0;

	for (int i = 0; i < WORDS * size; i++)
		out[i] = rank * 1000003 + i;
	MPI_Alltoall(out, WORDS, MPI_INT, in, WORDS, MPI_INT, MPI_COMM_WORLD);
	for (int from = 0; from < size; from++)
		for (int i = 0; i < WORDS; i++)
			check(in[from * WORDS + i] == from * 1000003 + rank * WORDS + i, "MPI_Alltoall", WORDS);
	MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	check(sum == (long)size * (size + 1) / 2, "MPI_Allreduce", 1);
	free(out);
	free(in);
}

static void
one_sided(unsigned char *b)
{
	const int n = 10000;
	unsigned char *memory;
	long one = 1, old, *sum;
	MPI_Win w;

	MPI_Win_allocate(n + (MPI_Aint)sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &w);
	sum = (long *)(memory + n);
	*sum = 0;
	MPI_Win_fence(0, w);
	fill(b, (size_t)n, (unsigned int)rank);
	MPI_Put(b, n, MPI_BYTE, (rank + 1) % size, 0, n, MPI_BYTE, w);
	MPI_Win_fence(0, w);
	check(is_filled(memory, (size_t)n, (unsigned int)((rank + size - 1) % size)), "MPI_Put", (size_t)n);
	MPI_Get(b, n, MPI_BYTE, (rank + 1) % size, 0, n, MPI_BYTE, w);
	MPI_Win_fence(0, w);
	check(is_filled(b, (size_t)n, (unsigned int)rank), "MPI_Get", (size_t)n);
	for (int i = 0; i < ADDITIONS; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w);
		MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, n, MPI_SUM, w);
		MPI_Win_unlock(0, w);
	}
	MPI_Win_fence(0, w);
	check(rank != 0 || *sum == (long)ADDITIONS * size, "MPI_Fetch_and_op", ADDITIONS);
	MPI_Win_free(&w);
}

/** The first process looks, for all. */
static int
once_more(const char *file)
{
	int more = file != NULL && access(file, F_OK) != 0;

	MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return more;
}

int
main(int argc, char **argv)
{
	unsigned char *b = malloc(LONGEST);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	check(size > 1 && b != NULL, "number of processes", (size_t)size);
	do {
		for (size_t n = 1; n <= LONGEST; n *= 8)
			ping_pong(b, n);
		for (size_t n = 1; n <= LONGEST / AT_ONCE / 2; n *= 16)
			many_at_once(b, n);
		collective();
		one_sided(b);
		turns++;
	} while (once_more(argv[1]));
	if (rank == 0)
		printf("all right, %d times\n", turns);
	MPI_Finalize();
	free(b);
	return 0;
}
