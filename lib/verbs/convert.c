/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs/stacks.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* The amount that is write-protected at a time. Writers wait no longer than the copy takes, and memory needn't be twice
 * as large as what is converted. */
#define CONVERT_CHUNK_BYTES (UINT64_C(64) << 20)
#define CONVERT_STACK_BYTES (UINT64_C(1) << 20)
/*
 * After a piece of at least this size, as many bytes of the memfd are left free: mremap() may double the mapping, and
 * must not reach the bytes that follow. Smaller pieces are close together, so that neighbours make one mapping.
 */
#define CONVERT_SPARE_FROM_BYTES (UINT64_C(64) << 10)

/*
 * Up to this size the calling thread converts, if it can: two wake-ups would cost more than the work. Signals are
 * blocked meanwhile.
 */
#define CONVERT_HERE_BYTES (UINT64_C(1) << 20)
#define DEFAULT_MAX_MAP_COUNT 65530

/* A conversion for the thread to do. */
struct convert_job {
	const struct mem_file *file;
	uint64_t start, bytes, offset;
	int prot;
	int err;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int uffd = -1;
static bool thread_up;
static sem_t job_given, job_done;
static struct convert_job job;
static uint64_t total;
static bool files_pinned;
/* Identifies the memfds that were closed; there may still be memory of theirs. */
static struct mem_file *retired;
static size_t nb_retired;

int
mem_file_init(struct mem_file *f, int fd, uint64_t bytes)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	*f = (struct mem_file){
		.fd = fd,
		.dev_major = major(st.st_dev),
		.dev_minor = minor(st.st_dev),
		.inode = st.st_ino,
		.bytes = bytes,
	};
	return 0;
}

void
mem_file_fini(struct mem_file *f)
{
	struct mem_file *grown;

	if (f->fd >= 0)
		close(f->fd);
	free(f->unused);
	f->fd = -1;
	f->unused = NULL;
	if (!f->next)
		return;
	pthread_mutex_lock(&lock);
	grown = realloc(retired, (nb_retired + 1) * sizeof(*retired));
	if (grown) {
		retired = grown;
		retired[nb_retired++] = *f;
	}
	pthread_mutex_unlock(&lock);
}

bool
mem_file_is(const struct mem_file *f, const struct map_entry *e)
{
	return f->inode && e->shared && e->inode == f->inode && e->dev_major == f->dev_major &&
	       e->dev_minor == f->dev_minor;
}

bool
convert_is_retired(const struct map_entry *e)
{
	for (size_t i = 0; i < nb_retired; i++)
		if (mem_file_is(&retired[i], e))
			return true;
	return false;
}

/* Make threads that write to the range wait from now on. */
static int
quiesce(uint64_t start, uint64_t bytes)
{
	struct uffdio_register reg = { .range = { start, bytes }, .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect wp = { .range = { start, bytes }, .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	int err;

	/* Without UFFD_FEATURE_WP_UNPOPULATED (Linux 6.4) only pages that are there can be protected. */
	if (madvise((void *)start, bytes, MADV_POPULATE_READ))
		return errno;
	if (ioctl(uffd, UFFDIO_REGISTER, &reg))
		return errno;
	while (ioctl(uffd, UFFDIO_WRITEPROTECT, &wp)) {
		if (errno == EAGAIN)
			continue;
		err = errno;
		ioctl(uffd, UFFDIO_UNREGISTER, &reg.range);
		return err;
	}
	return 0;
}

/* Undo the protection: the range becomes as it was before. */
static void
release(uint64_t start, uint64_t bytes)
{
	struct uffdio_writeprotect wp = { .range = { start, bytes } };

	ioctl(uffd, UFFDIO_WRITEPROTECT, &wp);
	ioctl(uffd, UFFDIO_UNREGISTER, &wp.range);
	ioctl(uffd, UFFDIO_WAKE, &wp.range);
}

static int
copy_out(const struct mem_file *f, uint64_t start, uint64_t bytes, uint64_t offset)
{
	while (bytes) {
		/*
		 * Not pwrite(), because AddressSanitizer's version rejects memory that the program has freed, which is
		 * copied too.
		 */
		ssize_t n = syscall(SYS_pwrite64, f->fd, start, bytes, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : ENOSPC;
		start += n;
		offset += n;
		bytes -= n;
	}
	return 0;
}

static int
convert_chunk(const struct mem_file *f, uint64_t start, uint64_t bytes, uint64_t offset, int prot)
{
	struct uffdio_range range = { start, bytes };
	int err = uffd >= 0 ? quiesce(start, bytes) : 0;

	if (err)
		return err;
	err = copy_out(f, start, bytes, offset);
	/* The kernel checks everything that can fail before it removes the old mapping. */
	if (!err && mmap((void *)start, bytes, prot, MAP_SHARED | MAP_FIXED, f->fd, offset) == MAP_FAILED)
		err = errno;
	if (err) {
		if (uffd >= 0)
			release(start, bytes);
		return err;
	}
	if (uffd >= 0)
		ioctl(uffd, UFFDIO_WAKE, &range);
	/*
	 * Cause page faults now rather than on the data path; a failure doesn't matter. Pages of a memfd that are there become writable by a read, too,
	 * but the kernel maps many of them at each fault then.
	 */
	madvise((void *)start, bytes, MADV_POPULATE_READ);
	return 0;
}

static int
convert_chunks(const struct convert_job *j)
{
	uint64_t done = 0;
	int err = 0;

	while (done < j->bytes && !err) {
		uint64_t n = j->bytes - done;

		if (n > CONVERT_CHUNK_BYTES)
			n = CONVERT_CHUNK_BYTES;
		err = convert_chunk(j->file, j->start + done, n, j->offset + done, j->prot);
		done += n;
	}
	return err;
}

static void *
convert_thread(void *arg)
{
	for (;;) {
		while (sem_wait(&job_given))
			;
		job.err = convert_chunks(&job);
		sem_post(&job_done);
	}
	return NULL;
}

/*
 * @return true if this thread can't write to the range while writers wait, which would block it for ever: neither its
 * stack nor errno is there. An alternate signal stack doesn't matter, since signals are blocked.
 */
static bool
can_convert_here(uint64_t start, uint64_t end)
{
	uint64_t sp = (uintptr_t)__builtin_frame_address(0), tls = (uintptr_t)&errno;

	return (end - start <= CONVERT_HERE_BYTES || uffd < 0) && (sp < start || sp >= end) && (tls < start || tls >= end) &&
	       !((uintptr_t)&job < end && (uintptr_t)(&job + 1) > start);
}

static int
convert_here(struct convert_job *j)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = convert_chunks(j);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

static int
start_thread(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;
	uint8_t *stack = mmap(NULL, CONVERT_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		return errno;
	/* A guard page below the stack. */
	mprotect(stack, sysconf(_SC_PAGESIZE), PROT_NONE);
	sem_init(&job_given, 0, 0);
	sem_init(&job_done, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack + sysconf(_SC_PAGESIZE), CONVERT_STACK_BYTES - sysconf(_SC_PAGESIZE));
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, convert_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		munmap(stack, CONVERT_STACK_BYTES);
	else
		pthread_setname_np(thread, "uroce-convert");
	return err;
}

static int
open_uffd(int uffd_dev)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	int fd, err, dev = uffd_dev;

	fd = dev < 0 ? (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd < 0 && dev < 0)
		dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (fd < 0 && dev >= 0)
		fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	if (dev >= 0 && dev != uffd_dev) {
		err = errno;
		close(dev);
		errno = err;
	}
	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api)) {
		err = errno;
		close(fd);
		return -err;
	}
	return fd;
}

int
convert_setup(int uffd_dev)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (uffd < 0) {
		int fd = open_uffd(uffd_dev);

		if (fd < 0)
			err = -fd;
		else
			uffd = fd;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

bool
convert_is_protected(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = uffd >= 0;
	pthread_mutex_unlock(&lock);
	return is;
}

/* @return how many mappings the kernel lets a process have. */
static uint64_t
most_mappings(void)
{
	static uint64_t most;
	FILE *f = most ? NULL : fopen("/proc/sys/vm/max_map_count", "re");

	if (f) {
		if (fscanf(f, "%" SCNu64, &most) != 1)
			most = 0;
		fclose(f);
	}
	if (!most)
		most = DEFAULT_MAX_MAP_COUNT;
	return most;
}

/*
 * Lock held. @return true if another mapping should be left to the program: each range in the midst of a mapping makes two more. A large
 * range is worth them.
 */
static bool
too_many_mappings(const struct mem_file *f, uint64_t bytes)
{
	return bytes < CONVERT_SPARE_FROM_BYTES && f->nb_mappings + 2 * f->ranges_since_collect > most_mappings() / 2;
}

/* Offsets of the memfd for so many bytes, which are never used again; lock held. */
static uint64_t
take_offsets(struct mem_file *f, uint64_t bytes, uint64_t spare)
{
	uint64_t offset = f->next;

	f->next += bytes + spare;
	f->since_collect += bytes;
	f->ranges_since_collect++;
	total += bytes;
	return offset;
}

int
convert_range(struct mem_file *f, uint64_t start, uint64_t end, int prot)
{
	uint64_t bytes = end - start, spare = bytes >= CONVERT_SPARE_FROM_BYTES ? bytes : 0;
	bool here;
	int err = 0;

	pthread_mutex_lock(&lock);
	here = can_convert_here(start, end);
	/* In a process of one thread nobody writes to its memory meanwhile, but for the daemon's copiers (copied.h). */
	if (uffd < 0 && !(here && stacks_alone()))
		err = ENOSYS;
	else if (bytes + spare > f->bytes - f->next)
		err = ENOSPC;
	else if (too_many_mappings(f, bytes)) {
		f->ranges_since_collect++;
		err = ENOSPC;
	}
	if (!err && !here && !thread_up) {
		err = start_thread();
		thread_up = !err;
	}
	if (!err) {
		job = (struct convert_job){
			.file = f, .start = start, .bytes = bytes, .offset = take_offsets(f, bytes, spare), .prot = prot
		};
		if (here) {
			err = convert_here(&job);
		} else {
			sem_post(&job_given);
			while (sem_wait(&job_done))
				;
			err = job.err;
		}
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void *
mem_file_map(struct mem_file *f, uint64_t bytes)
{
	void *at = MAP_FAILED;

	pthread_mutex_lock(&lock);
	if (f->fd >= 0 && bytes <= f->bytes - f->next)
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, (off_t)take_offsets(f, bytes, 0));
	pthread_mutex_unlock(&lock);
	return at == MAP_FAILED ? NULL : at;
}

static int
by_start(const void *a, const void *b)
{
	const struct mem_extent *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * Find the parts of [0, f->next) that no mapping of this process covers.
 * @param nb_mappings  Receives the number of all mappings.
 */
static int
find_unused(const struct mem_file *f, struct mem_extent **out, size_t *nb, uint64_t *nb_mappings)
{
	struct map_list all = { 0 };
	struct mem_extent *used = NULL, *unused = NULL;
	size_t n = 0, m = 0;
	uint64_t at = 0;
	int err = maps_range(&all, 0, UINT64_MAX);

	if (err)
		goto out;
	used = malloc((all.n + 1) * sizeof(*used));
	unused = malloc((all.n + 1) * sizeof(*unused));
	if (!used || !unused) {
		err = ENOMEM;
		goto out;
	}
	*nb_mappings = all.n;
	for (size_t i = 0; i < all.n; i++)
		if (all.e[i].inode == f->inode && all.e[i].dev_major == f->dev_major && all.e[i].dev_minor == f->dev_minor)
			used[n++] = (struct mem_extent){ all.e[i].offset, all.e[i].end - all.e[i].start };
	if (n)
		qsort(used, n, sizeof(*used), by_start);
	used[n++] = (struct mem_extent){ f->next, 0 };
	for (size_t i = 0; i < n; i++) {
		if (used[i].start > at)
			unused[m++] = (struct mem_extent){ at, used[i].start - at };
		if (used[i].start + used[i].bytes > at)
			at = used[i].start + used[i].bytes;
	}
	*out = unused;
	*nb = m;
	unused = NULL;
out:
	maps_free(&all);
	free(used);
	free(unused);
	return err;
}

static void
punch_common(const struct mem_file *f, const struct mem_extent *a, size_t na, const struct mem_extent *b, size_t nb)
{
	for (size_t i = 0, j = 0; i < na && j < nb;) {
		uint64_t a_end = a[i].start + a[i].bytes, b_end = b[j].start + b[j].bytes;
		uint64_t from = a[i].start > b[j].start ? a[i].start : b[j].start;
		uint64_t to = a_end < b_end ? a_end : b_end;

		if (from < to)
			fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from);
		if (a_end < b_end)
			i++;
		else
			j++;
	}
}

void
mem_file_collect(struct mem_file *f)
{
	struct mem_extent *unused;
	size_t nb;

	pthread_mutex_lock(&lock);
	/*
	 * One look isn't enough: a mapping that mremap() moves while the list is read may be missed, but what is mapped
	 * must never be punched. What two looks, far apart, both don't find is not mapped.
	 */
	if (!files_pinned && !find_unused(f, &unused, &nb, &f->nb_mappings)) {
		punch_common(f, f->unused, f->nb_unused, unused, nb);
		free(f->unused);
		f->unused = unused;
		f->nb_unused = nb;
	}
	f->since_collect = 0;
	f->ranges_since_collect = 0;
	pthread_mutex_unlock(&lock);
}

bool
mem_file_is_due(const struct mem_file *f)
{
	uint64_t ranges = f->nb_mappings;

	if (ranges < MEM_FILE_COLLECT_LEAST_RANGES)
		ranges = MEM_FILE_COLLECT_LEAST_RANGES;
	if (ranges > MEM_FILE_COLLECT_MOST_RANGES)
		ranges = MEM_FILE_COLLECT_MOST_RANGES;
	return f->since_collect >= MEM_FILE_COLLECT_BYTES || f->ranges_since_collect >= ranges;
}

uint64_t
convert_total(void)
{
	return total;
}

void
convert_pin_files(void)
{
	files_pinned = true;
}

void
convert_fork_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
convert_fork_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void
convert_fork_child(void)
{
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
	thread_up = false;
	total = 0;
}
