/* What the pixel loops share whatever the width of a register. The file that includes this defines
 *   TARGET          the instructions, as an attribute
 *   VECTOR          the bytes of a register
 *   NARROWER        the kernels for rows that are too short for these
 *   chunk_down()    VECTOR bytes of an output row
 *   plane()         one channel of a number of pixels that is a multiple of VECTOR / 4 */

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
