/* SPDX-License-Identifier: Apache-2.0 */
#include "subflows.h"

#include <stdlib.h>

#define QUANTILES (1u << QUANTILE_BITS)

/* The k-th of n sub-flows gets 1/k of the frames of the first (Zipf). */
bool subflows_make(struct subflows *s)
{
	double total = 0, below = 0;
	uint32_t k = 0;

	if (s->order != ORDER_ZIPF)
		return true;
	s->quantiles = malloc((QUANTILES + 1) * sizeof(*s->quantiles));
	if (!s->quantiles)
		return false;
	for (uint32_t i = s->count; i; i--)
		total += 1.0 / i;
	for (uint32_t q = 0; q < QUANTILES; q++) {
		const double wanted = total * q / QUANTILES;

		while (k + 1 < s->count && below + 1.0 / (k + 1) <= wanted)
			below += 1.0 / ++k;
		s->quantiles[q] = (uint32_t)((k + (wanted - below) * (k + 1)) * 256);
	}
	s->quantiles[QUANTILES] = s->count * 256 - 1;
	return true;
}

void subflows_free(struct subflows *s)
{
	free(s->quantiles);
	s->quantiles = NULL;
}

void subflow_template(const struct subflows *s, struct frame_template *out,
		      const struct frame_template *t, uint32_t flow, uint32_t seq)
{
	*out = *t;
	if (s->count) {
		const uint32_t number = subflow_of(s, seq) + flow * s->step;

		subflow_put(s, out->head, t, subflow_bytes(s, t, number));
	}
}
