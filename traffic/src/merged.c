/* SPDX-License-Identifier: Apache-2.0 */
#include "merged.h"

#include "lines.h"

#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>

#define CHUNK_WORDS (CHUNK / 64)
#define NO_CHUNK UINT64_MAX
#define CHUNKS_MOST (1u << 16) /* per flow: 32 MB, five seconds at 50 million frames/s */
#define CHUNKS_LEAST 16u
#define CHUNKS_ALL (1u << 18) /* for all flows: 128 MB, allocated on demand */

struct merged_flow {
	atomic_flag busy; /* a thread uses the members below or the flow's window */
	uint64_t top; /* one more than the highest chunk that any core has started */
} __attribute__((aligned(CACHE_LINE)));

static size_t windows_words(const struct merged *m)
{
	return (size_t)m->flows * m->chunks * CHUNK_WORDS;
}

/* Returns the size of the windows and of the kept chunks in bytes. */
static size_t mapped_bytes(const struct merged *m)
{
	return (windows_words(m) + (size_t)m->flows * m->cores * CHUNK_WORDS) * sizeof(uint64_t);
}

static void all_free(struct merged *m)
{
	if (!m)
		return;
	if (m->windows)
		munmap(m->windows, mapped_bytes(m));
	free(m->list);
	free(m->open);
	free(m);
}

static struct merged *all_make(uint32_t cores, uint32_t flows)
{
	struct merged *m = lines_alloc(1, sizeof(*m));
	void *memory;

	if (!m)
		return NULL;
	m->cores = cores;
	m->flows = flows;
	m->chunks = CHUNKS_MOST;
	while (m->chunks > CHUNKS_LEAST && (uint64_t)m->chunks * flows > CHUNKS_ALL)
		m->chunks /= 2;
	m->list = lines_alloc(flows, sizeof(*m->list));
	m->open = lines_alloc((size_t)flows * cores, sizeof(*m->open));
	memory = mmap(NULL, mapped_bytes(m), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || !m->list || !m->open) {
		m->windows = memory == MAP_FAILED ? NULL : memory;
		all_free(m);
		return NULL;
	}
	/* With huge pages the first frame of each flow would take 2 MB. */
	(void)madvise(memory, mapped_bytes(m), MADV_NOHUGEPAGE);
	m->windows = memory;
	m->kept = m->windows + windows_words(m);
	return m;
}

struct merged_core *merged_make(uint32_t core, uint32_t cores, struct sequence *sequences,
				uint32_t flows, struct merged *all)
{
	struct merged_core *c = lines_alloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->core = core;
	c->sequences = sequences;
	c->all = core ? all : all_make(cores, flows);
	if (!c->all) {
		free(c);
		return NULL;
	}
	return c;
}

void merged_free(struct merged_core *c)
{
	if (!c)
		return;
	if (!c->core)
		all_free(c->all);
	free(c);
}

static uint64_t *chunk_at(const struct merged *m, uint32_t flow, uint64_t chunk)
{
	return m->windows + ((size_t)flow * m->chunks + (chunk & (m->chunks - 1))) * CHUNK_WORDS;
}

static uint64_t *kept_at(const struct merged *m, uint32_t flow, uint32_t core)
{
	return m->kept + ((size_t)flow * m->cores + core) * CHUNK_WORDS;
}

static uint64_t *open_of(const struct merged *m, uint32_t flow, uint32_t core)
{
	return &m->open[(size_t)flow * m->cores + core];
}

/* True if a started chunk is within the merged window. */
static bool is_held(const struct merged *m, uint32_t flow, uint64_t chunk)
{
	return chunk + m->chunks >= m->list[flow].top;
}

void merged_begin(struct merged_core *c)
{
	struct merged *m = c->all;

	for (uint32_t f = 0; f < m->flows; f++) {
		const uint64_t top = m->list[f].top < m->chunks ? m->list[f].top : m->chunks;
		const size_t page = 4096, used = (size_t)top * CHUNK / 8;
		const size_t first = used < page ? used : page;
		uint8_t *window = (uint8_t *)chunk_at(m, f, 0);

		*open_of(m, f, c->core) = NO_CHUNK;
		if (c->core)
			continue;
		m->list[f].top = 0;
		/* Keep the first page, so that a phase does not start with page faults. */
		memset(window, 0, first);
		if (used > first)
			(void)madvise(window + page, used - page, MADV_DONTNEED);
	}
}

static void flow_lock(struct merged_flow *f)
{
	while (atomic_flag_test_and_set_explicit(&f->busy, memory_order_acquire))
		sched_yield();
}

static void flow_unlock(struct merged_flow *f)
{
	atomic_flag_clear_explicit(&f->busy, memory_order_release);
}

static uint64_t bits_count(const uint64_t *bits, size_t words)
{
	uint64_t count = 0;

	for (size_t i = 0; i < words; i++)
		count += (uint64_t)__builtin_popcountll(bits[i]);
	return count;
}

/* Merges the bits of a chunk into another; returns the number of bits set in both. */
static uint64_t bits_merge(uint64_t *into, const uint64_t *bits)
{
	uint64_t both = 0;

	for (uint32_t i = 0; i < CHUNK_WORDS; i++) {
		both += (uint64_t)__builtin_popcountll(into[i] & bits[i]);
		into[i] |= bits[i];
	}
	return both;
}

/* Merges and closes the chunk that a core counts by itself. */
static void chunk_close(struct merged_core *c, uint32_t flow, struct merged_found *found)
{
	struct merged *m = c->all;
	struct sequence *s = &c->sequences[flow];
	const uint64_t chunk = *open_of(m, flow, c->core);
	uint64_t copies, seen;

	if (chunk == NO_CHUNK)
		return;
	*open_of(m, flow, c->core) = NO_CHUNK;
	if (is_held(m, flow, chunk)) {
		copies = bits_merge(chunk_at(m, flow, chunk), s->window);
	} else {
		copies = bits_merge(kept_at(m, flow, c->core), s->window);
		for (uint32_t i = 0; i < m->cores; i++)
			if (*open_of(m, flow, i) == chunk)
				(void)bits_merge(kept_at(m, flow, i), s->window);
	}
	seen = bits_count(s->window, CHUNK_WORDS);
	memset(s->window, 0, CHUNK / 8);
	s->distinct -= copies;
	s->duplicated += copies;
	found->copies = copies;
	/* The frames of a flow have one size; with IMIX the mean size of the chunk is used. */
	found->bytes = s->bytes * copies / (seen ? seen : 1);
	s->bytes = 0;
}

/* Makes room for a chunk above all others. A chunk that leaves the window is kept for the cores
 * that still count it. */
static void top_raise(struct merged *m, uint32_t flow, uint64_t chunk)
{
	struct merged_flow *f = &m->list[flow];
	const uint64_t most = f->top + m->chunks, end = chunk + 1 < most ? chunk + 1 : most;

	for (uint64_t n = f->top; n < end; n++) {
		uint64_t *bits = chunk_at(m, flow, n);

		for (uint32_t i = 0; i < m->cores; i++)
			if (n >= m->chunks && *open_of(m, flow, i) == n - m->chunks)
				memcpy(kept_at(m, flow, i), bits, CHUNK / 8);
		memset(bits, 0, CHUNK / 8);
	}
	f->top = chunk + 1;
}

/* Opens the chunk of a number. */
static void chunk_open(struct merged_core *c, uint32_t flow, uint64_t number)
{
	const uint64_t chunk = number / CHUNK;

	if (chunk >= c->all->list[flow].top)
		top_raise(c->all, flow, chunk);
	*open_of(c->all, flow, c->core) = chunk;
	c->sequences[flow].next = number;
}

/* Extends a 32-bit number to the value nearest to the top of the window. */
static uint64_t extended(const struct merged *m, uint32_t flow, uint32_t seq)
{
	const uint64_t near = m->list[flow].top * CHUNK;

	return near + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)near);
}

/* Counts a frame outside the core's open chunk. */
static bool other_count(struct merged_core *c, uint32_t flow, uint32_t seq, uint32_t len,
			struct merged_found *found)
{
	struct merged *m = c->all;
	struct sequence *s = &c->sequences[flow];
	const uint64_t number = extended(m, flow, seq), mask = 1ull << (number % 64);
	uint64_t *word;

	if ((int64_t)number < 0 || !is_held(m, flow, number / CHUNK)) {
		s->beyond++;
		return false;
	}
	if (number >= s->next) {
		chunk_close(c, flow, found);
		chunk_open(c, flow, number);
		s->bytes = len;
		return sequence_add(s, seq);
	}
	word = chunk_at(m, flow, number / CHUNK) + number % CHUNK / 64;
	if (*word & mask) {
		s->duplicated++;
		return false;
	}
	*word |= mask;
	s->distinct++;
	s->reordered++;
	return true;
}

uint32_t merged_count(struct merged_core *c, uint32_t flow, uint32_t seq, uint32_t count,
		      uint32_t len, struct merged_found *found)
{
	struct sequence *s = &c->sequences[flow];
	const uint64_t number = s->next + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)s->next);
	const uint32_t room = CHUNK - (uint32_t)(number % CHUNK);

	*found = (struct merged_found){ 0 };
	if (number / CHUNK != *open_of(c->all, flow, c->core)) {
		flow_lock(&c->all->list[flow]);
		found->fresh = other_count(c, flow, seq, len, found);
		flow_unlock(&c->all->list[flow]);
		return 1;
	}
	if (number == s->next) {
		count = count < room ? count : room;
		sequence_extend(s, count);
		found->fresh = true;
	} else {
		count = 1;
		found->fresh = sequence_add_slow(s, number);
	}
	s->bytes += found->fresh ? count * len : 0;
	return count;
}

void merged_finish(struct merged_core *c, uint32_t flow, struct merged_found *found)
{
	*found = (struct merged_found){ 0 };
	chunk_close(c, flow, found);
}

uint64_t merged_unseen(const struct merged *m, uint32_t flow, uint32_t seq)
{
	const uint64_t number = extended(m, flow, seq), chunk = number / CHUNK;

	if ((int64_t)number < 0)
		return UINT64_MAX;
	if (chunk >= m->list[flow].top)
		return number;
	if (!is_held(m, flow, chunk) ||
	    chunk_at(m, flow, chunk)[number % CHUNK / 64] >> (number % 64) & 1)
		return UINT64_MAX;
	return number;
}

struct sequence merged_flow_of(const struct merged *m, uint32_t flow,
			       const struct sequence *const *by_core)
{
	const uint64_t top = m->list[flow].top;
	const uint64_t older =
		(top > m->chunks ? top - m->chunks : 0) * CHUNK; /* older than the window */
	struct sequence sum = { 0 };

	for (uint32_t i = 0; i < m->cores; i++) {
		const struct sequence *s = by_core[i];

		sum.distinct += s->distinct;
		sum.duplicated += s->duplicated;
		sum.reordered += s->reordered;
		sum.corrupted += s->corrupted;
		sum.beyond += s->beyond;
		sum.next = s->next > sum.next ? s->next : sum.next;
	}
	if (sum.beyond)
		sequence_settle_by(&sum, older,
				   bits_count(chunk_at(m, flow, 0),
					      (size_t)m->chunks * CHUNK_WORDS));
	return sum;
}
