/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/counter.h"
#include "hist.h"

uint64_t
hist_value(unsigned int i)
{
	unsigned int shift;
	uint64_t low;

	if (i < HIST_SUBS)
		return i;
	shift = i / HIST_SUBS - 1;
	low = (uint64_t)(i % HIST_SUBS + HIST_SUBS) << shift;
	return low + (((uint64_t)1 << shift) >> 1);
}

void
hist_merge(struct hist *to, const struct hist *from)
{
	for (unsigned int i = 0; i < HIST_CLASSES; i++)
		to->n[i] += counter_read(&from->n[i]);
}

void
hist_subtract(struct hist *from, const struct hist *before)
{
	for (unsigned int i = 0; i < HIST_CLASSES; i++)
		from->n[i] -= before->n[i];
}

uint64_t
hist_count(const struct hist *h)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < HIST_CLASSES; i++)
		n += h->n[i];
	return n;
}

uint64_t
hist_percentile(const struct hist *h, double share)
{
	uint64_t all = hist_count(h), want, n = 0;

	if (all == 0)
		return 0;
	want = (uint64_t)(share * (double)all);
	if ((double)want < share * (double)all)
		want++;
	if (want == 0)
		want = 1;
	for (unsigned int i = 0; i < HIST_CLASSES; i++) {
		n += h->n[i];
		if (n >= want)
			return hist_value(i);
	}
	return hist_value(HIST_CLASSES - 1);
}
