/* The pixel loops that do not depend on the width of a register: the vertical pass, and planes of numbers. The instructions of
 * both widths have the same names but for their beginning. The file that includes this defines
 *   TARGET            the instructions, as an attribute
 *   WIDE(name)        the instruction `name` on a whole register
 *   VECTOR            the bytes of a register; vector and numbers: one of integers, and one of float32
 *   NARROWER          the kernels for rows that are too short for these
 *   add_pairs()       sums of 32 bits + the products of neighbours: pixels and weights of 16 bits
 *   channel_order()   where a channel has its bytes in VECTOR / 4 pixels
 *   channel_at()      these bytes, as integers */

/* VECTOR bytes of an output row. The bytes of two rows are interleaved. Unpacking works on each part of a register separately, and
 * so does packing, so the order is restored. The high parts of the weights and their sums fit into 8 and 16 bits; the sum of the
 * low parts is shifted to the same unit before the two are added, which loses nothing that the last shift would keep. */
TARGET ALWAYS_INLINE void chunk_down(const struct axis *axis, size_t taps, size_t index, const uint8_t *from, size_t stride,
                                     uint8_t *to) {
    enum { SHIFT = WEIGHT_BITS - LOW_BITS };
    const int16_t *low = axis->low + index * taps;
    const int8_t *high = axis->high8 + index * taps;
    const vector zero = WIDE(set1_epi32)(0);
    vector low0 = zero, low1 = zero, low2 = zero, low3 = zero;
    vector high0 = WIDE(set1_epi16)(1 << (SHIFT - 1)), high1 = high0;
    for (size_t tap = 0; tap < taps; tap += 2, from += 2 * stride) {
        vector upper, lower;
        int32_t pair;
        int16_t small_pair;
        memcpy(&upper, from, sizeof upper);
        memcpy(&lower, from + stride, sizeof lower);
        memcpy(&pair, low + tap, sizeof pair);
        memcpy(&small_pair, high + tap, sizeof small_pair);
        const vector left = WIDE(unpacklo_epi8)(upper, lower), right = WIDE(unpackhi_epi8)(upper, lower);
        const vector weights = WIDE(set1_epi32)(pair), tops = WIDE(set1_epi16)(small_pair);
        low0 = add_pairs(low0, WIDE(unpacklo_epi8)(left, zero), weights);
        low1 = add_pairs(low1, WIDE(unpackhi_epi8)(left, zero), weights);
        low2 = add_pairs(low2, WIDE(unpacklo_epi8)(right, zero), weights);
        low3 = add_pairs(low3, WIDE(unpackhi_epi8)(right, zero), weights);
        high0 = WIDE(add_epi16)(high0, WIDE(maddubs_epi16)(left, tops));
        high1 = WIDE(add_epi16)(high1, WIDE(maddubs_epi16)(right, tops));
    }
    high0 = WIDE(add_epi16)(high0, WIDE(packs_epi32)(WIDE(srai_epi32)(low0, LOW_BITS), WIDE(srai_epi32)(low1, LOW_BITS)));
    high1 = WIDE(add_epi16)(high1, WIDE(packs_epi32)(WIDE(srai_epi32)(low2, LOW_BITS), WIDE(srai_epi32)(low3, LOW_BITS)));
    const vector bytes = WIDE(packus_epi16)(WIDE(srai_epi16)(high0, SHIFT), WIDE(srai_epi16)(high1, SHIFT));
    memcpy(to, &bytes, sizeof bytes);
}

/* The last chunk of a row overlaps the one before rather than being short. */
TARGET ALWAYS_INLINE void row_down(const struct axis *axis, size_t taps, size_t index, const uint8_t *from, size_t count,
                                   uint8_t *to) {
    const uint8_t *row = from + axis->first[index] * count;
    for (size_t x = 0; x + VECTOR <= count; x += VECTOR) {
        chunk_down(axis, taps, index, row + x, count, to + x);
    }
    if (count % VECTOR) {
        chunk_down(axis, taps, index, row + count - VECTOR, count, to + count - VECTOR);
    }
}

/* With the number of taps known at compile time, the inner loop is unrolled. */
TARGET static void down(const struct axis *axis, size_t index, const uint8_t *from, size_t count, uint8_t *to) {
    if (count < VECTOR || axis->taps > axis->input || axis->taps > DOWN_TAPS_LIMIT) {
        NARROWER.down(axis, index, from, count, to);
        return;
    }
    switch (axis->taps) {
    case 2: row_down(axis, 2, index, from, count, to); break;
    case 4: row_down(axis, 4, index, from, count, to); break;
    case 6: row_down(axis, 6, index, from, count, to); break;
    default: row_down(axis, axis->taps, index, from, count, to); break;
    }
}

/* One channel of `count` pixels, a multiple of VECTOR / 4. */
TARGET static inline void plane(const uint8_t *pixels, size_t count, int channel, float scale, float offset, float *to) {
    const vector order = channel_order(channel);
    const numbers factor = WIDE(set1_ps)(scale), constant = WIDE(set1_ps)(offset);
    for (size_t i = 0; i < count; i += VECTOR / sizeof *to) {
        const numbers value = WIDE(cvtepi32_ps)(channel_at(pixels + CHANNELS * i, order));
        WIDE(storeu_ps)(to + i, WIDE(add_ps)(WIDE(mul_ps)(value, factor), constant));
    }
}

/* Writing dominates the cost, and is twice as fast when whole cache lines are written in sequence. So the pixels are processed
 * in pieces that fit the first-level cache, once for each plane, starting at addresses that are multiples of VECTOR. */
TARGET static void planes(const uint8_t *pixels, size_t count, const float scale[3], const float offset[3], float *const to[3]) {
    enum { PIECE = 2048, STEP = VECTOR / sizeof(float) };
    const size_t odd = (VECTOR - (uintptr_t)to[0] % VECTOR) % VECTOR / sizeof(float), first = odd < count ? odd : count;
    plain_kernels.planes(pixels, first, scale, offset, to);
    size_t done = first;
    while (count - done >= STEP) {
        const size_t left = (count - done) / STEP * STEP, size = left < PIECE ? left : PIECE;
        for (int c = 0; c < CHANNELS; c++) {
            plane(pixels + CHANNELS * done, size, c, scale[c], offset[c], to[c] + done);
        }
        done += size;
    }
    float *const rest[CHANNELS] = {to[0] + done, to[1] + done, to[2] + done};
    plain_kernels.planes(pixels + CHANNELS * done, count - done, scale, offset, rest);
}
