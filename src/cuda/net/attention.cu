/* Attention: for each picture and head, softmax(Q Kᵀ / √width) V.
 *
 * attend_tiles() is for 16-bit numbers, with tensor cores. A warp has 16 queries; a block of four goes through the keys and values
 * 64 at a time, which arrive in shared memory while those before them are used. Scores and sums stay in registers: with the largest
 * score m so far, a query keeps Σ e^(s − m) and Σ e^(s − m) v, and multiplies both by e^(m − m') when a larger one, m', comes.
 *
 * The product of 16 x 16 and 16 x 8 numbers that a warp computes has a fixed place for each: lane 4 g + t has of the left matrix
 * (rows g, g + 8) and of the right one (column g) the numbers 2 t, 2 t + 1, 2 t + 8, 2 t + 9, and of the result columns 2 t, 2 t + 1
 * of both rows. So results can be the left matrix of the next product as they are.
 *
 * attend_plain() is for all else: numbers of any type, heads of any width up to ATTEND_WIDTH, and keys and values beside. A warp
 * has four queries, and a lane the score of one key at a time. */
#include "cuda/net/kernels.h"
#include "cuda/net/numbers.h"

#include <math.h>

namespace {

enum { WARP = 32, WARPS = 4, THREADS = WARPS * WARP, ALL = -1 };

__device__ __forceinline__ float largest_of(float number, int from, int to) {
    for (int step = from; step < to; step *= 2) {
        number = fmaxf(number, __shfl_xor_sync((unsigned)ALL, number, step));
    }
    return number;
}

__device__ __forceinline__ float sum_of(float number, int from, int to) {
    for (int step = from; step < to; step *= 2) {
        number += __shfl_xor_sync((unsigned)ALL, number, step);
    }
    return number;
}

/* ---- Any ---- */

enum { QUERIES = 4, KEYS = WARP, PARTS = ATTEND_WIDTH / WARP };

/* KEYS rows from a picture's on, of one head; rows that are not there are zeros. */
template <class T>
__device__ __forceinline__ void load_rows(const T *from, size_t step, unsigned left, unsigned width, float *to) {
    for (unsigned i = threadIdx.x; i < KEYS * width; i += THREADS) {
        const unsigned row = i / width, d = i % width;
        to[row * (width + 1) + d] = row < left ? widen(from[row * step + d]) : 0.0F;
    }
}

/* What the queries of a warp have so far. */
struct attending {
    float most[QUERIES], total[QUERIES], sums[QUERIES][PARTS];
};

/* One chunk of keys and values. */
__device__ __forceinline__ void attend_chunk(unsigned left, unsigned width, const float *queries, const float *keys,
                                             const float *values, struct attending *own) {
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int q = 0; q < QUERIES; q++) {
        float score = 0;
        for (unsigned d = 0; d < width; d++) {
            score += queries[q * width + d] * keys[lane * (width + 1) + d];
        }
        score = lane < left ? score : -INFINITY;
        const float most = fmaxf(own->most[q], largest_of(score, 1, WARP)), keep = expf(own->most[q] - most);
        const float share = expf(score - most);
        own->most[q] = most;
        own->total[q] = own->total[q] * keep + sum_of(share, 1, WARP);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            own->sums[q][part] *= keep;
        }
        for (unsigned j = 0; j < KEYS; j++) {
            const float of_key = __shfl_sync((unsigned)ALL, share, (int)j);
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                const unsigned d = part * WARP + lane;
                if (d < width) {
                    own->sums[q][part] += of_key * values[j * (width + 1) + d];
                }
            }
        }
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) attend_plain(struct attention what, float scale) {
    DYNAMIC_SHARED(float, room);
    const unsigned width = (unsigned)what.width, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float *keys = room, *values = keys + KEYS * (width + 1), *queries = values + KEYS * (width + 1);
    const size_t first = (size_t)blockIdx.x * WARPS * QUERIES, offset = (size_t)blockIdx.y * width, picture = blockIdx.z;
    for (unsigned i = threadIdx.x; i < WARPS * QUERIES * width; i += THREADS) {
        const size_t query = first + i / width;
        const T *from = (const T *)what.query + (picture * what.query_tokens + query) * what.query_step + offset;
        queries[i] = query < what.queries ? widen(from[i % width]) * scale : 0.0F;
    }
    struct attending own;
    for (int q = 0; q < QUERIES; q++) {
        own.most[q] = -INFINITY;
        own.total[q] = 0;
        for (int part = 0; part < PARTS; part++) {
            own.sums[q][part] = 0;
        }
    }
    for (int beside = 0; beside < 2; beside++) {
        const struct attention::attended *to = beside ? &what.beside : &what.own;
        for (size_t start = 0; start < to->tokens; start += KEYS) {
            const size_t at = (picture * to->tokens + start) * to->step + offset;
            const unsigned left = (unsigned)(to->tokens - start < KEYS ? to->tokens - start : KEYS);
            __syncthreads();
            load_rows((const T *)to->keys + at, to->step, left, width, keys);
            load_rows((const T *)to->values + at, to->step, left, width, values);
            __syncthreads();
            attend_chunk(left, width, queries + warp * QUERIES * width, keys, values, &own);
        }
    }
    for (int q = 0; q < QUERIES; q++) {
        const size_t query = first + warp * QUERIES + q;
        T *made = (T *)what.to + ((picture * what.queries + query) * what.heads) * width + offset;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            if (query < what.queries && part * WARP + lane < width) {
                narrow(own.sums[q][part] / own.total[q], made + part * WARP + lane);
            }
        }
    }
}

template <class T> cudaError_t attend_any(cudaStream_t stream, const struct attention *what) {
    const dim3 grid((unsigned)((what->queries + WARPS * QUERIES - 1) / (WARPS * QUERIES)), (unsigned)what->heads,
                    (unsigned)what->count);
    const size_t shared = (2 * KEYS * (what->width + 1) + WARPS * QUERIES * what->width) * sizeof(float);
    return LAUNCH(attend_plain<T>, grid, THREADS, shared, stream, *what, 1.0F / sqrtf((float)what->width));
}

/* ---- 16 bits ---- */

enum { TILE = 64, EIGHTS = TILE / 8 };

/* A tile's rows have 8 numbers more than a head, so that rows begin in different banks of the memory. */
template <int WIDTH> struct tile {
    enum { ROW = WIDTH + 8, SIZE = TILE * ROW };
};

__device__ __forceinline__ uint32_t pair(float low, float high, float16) {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&both);
}

__device__ __forceinline__ uint32_t pair(float low, float high, bfloat16) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&both);
}

#ifdef __CUDACC__

__device__ __forceinline__ uint32_t shared_address(const void *place) {
    return (uint32_t)__cvta_generic_to_shared(place);
}

/* 16 bytes on their way to shared memory: those at `from`, or zeros. */
__device__ __forceinline__ void send(void *to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0));
}

__device__ __forceinline__ void send_end() {
    asm volatile("cp.async.commit_group;\n");
}

/* Waits for all groups but the last `more`. */
template <int MORE> __device__ __forceinline__ void await() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(MORE));
}

/* Right matrices of two products beside each other, from rows of 8 numbers: keys `across` at dimension `along`. */
template <class T> __device__ __forceinline__ void load_keys(const T *keys, int row, int across, int along, uint32_t made[4]) {
    const int lane = threadIdx.x % WARP, matrix = lane / 8;
    const T *from = keys + (across + matrix / 2 * 8 + lane % 8) * row + along + matrix % 2 * 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(made[0]), "=r"(made[1]), "=r"(made[2]), "=r"(made[3])
                 : "r"(shared_address(from)));
}

/* The same for values: dimensions `across` of the tokens from `along` on. */
template <class T> __device__ __forceinline__ void load_values(const T *values, int row, int across, int along, uint32_t made[4]) {
    const int lane = threadIdx.x % WARP, matrix = lane / 8;
    const T *from = values + (along + matrix % 2 * 8 + lane % 8) * row + across + matrix / 2 * 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(made[0]), "=r"(made[1]), "=r"(made[2]), "=r"(made[3])
                 : "r"(shared_address(from)));
}

__device__ __forceinline__ void multiply(float16, float sums[4], const uint32_t left[4], const uint32_t right[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

__device__ __forceinline__ void multiply(bfloat16, float sums[4], const uint32_t left[4], const uint32_t right[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

#else /* the same on a processor, for tests */

inline void send(void *to, const void *from, bool there) {
    const uint4 zeros = {0, 0, 0, 0};
    *(uint4 *)to = there ? *(const uint4 *)from : zeros;
}

inline void send_end() {
}

template <int MORE> inline void await() {
}

template <class T> inline uint32_t pair_of(const T *low, const T *high) {
    return (uint32_t)*(const uint16_t *)low | (uint32_t)*(const uint16_t *)high << 16;
}

template <class T> inline void load_keys(const T *keys, int row, int across, int along, uint32_t made[4]) {
    const int lane = threadIdx.x % WARP;
    for (int matrix = 0; matrix < 4; matrix++) {
        const T *from = keys + (across + matrix / 2 * 8 + lane / 4) * row + along + matrix % 2 * 8 + lane % 4 * 2;
        made[matrix] = pair_of(from, from + 1);
    }
}

template <class T> inline void load_values(const T *values, int row, int across, int along, uint32_t made[4]) {
    const int lane = threadIdx.x % WARP;
    for (int matrix = 0; matrix < 4; matrix++) {
        const T *from = values + (along + matrix % 2 * 8 + lane % 4 * 2) * row + across + matrix / 2 * 8 + lane / 4;
        made[matrix] = pair_of(from, from + row);
    }
}

/* The product of two pairs. */
template <class T> inline float product_of(uint32_t left, uint32_t right) {
    const uint16_t halves[] = {(uint16_t)left, (uint16_t)right, (uint16_t)(left >> 16), (uint16_t)(right >> 16)};
    const T *numbers = (const T *)(const void *)halves;
    return widen(numbers[0]) * widen(numbers[1]) + widen(numbers[2]) * widen(numbers[3]);
}

template <class T> inline void multiply(T, float sums[4], const uint32_t left[4], const uint32_t right[2]) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    for (int j = 0; j < 4; j++) {
        uint32_t from[4], to[2][2];
        for (int i = 0; i < 4; i++) {
            from[i] = (uint32_t)__shfl_sync((unsigned)ALL, (int)left[i], g * 4 + j);
        }
        for (int i = 0; i < 4; i++) {
            to[i / 2][i % 2] = (uint32_t)__shfl_sync((unsigned)ALL, (int)right[i % 2], (2 * t + i / 2) * 4 + j);
        }
        for (int i = 0; i < 4; i++) {
            sums[i] += product_of<T>(from[i / 2], to[i % 2][0]) + product_of<T>(from[2 + i / 2], to[i % 2][1]);
        }
    }
}

#endif

/* Sends a tile of keys or values: rows of one head from a picture's on. */
template <class T, int WIDTH> __device__ __forceinline__ void send_tile(const T *from, size_t step, int left, T *to) {
    enum { GROUPS = WIDTH / 8 };
    for (int i = (int)threadIdx.x; i < TILE * GROUPS; i += THREADS) {
        const int row = i / GROUPS, d = i % GROUPS * 8;
        send(to + row * tile<WIDTH>::ROW + d, row < left ? from + (size_t)row * step + d : from, row < left);
    }
}

/* 2 to the power of a number, which may be very small. */
__device__ __forceinline__ float power(float number) {
#ifdef __CUDACC__
    float made;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(made) : "f"(number));
    return made;
#else
    return exp2f(number);
#endif
}

/* Scores become shares, and what there is so far is kept to scale. */
template <int COLUMNS>
__device__ __forceinline__ void soften(int left, float scale, float scores[EIGHTS][4], float most[2], float total[2],
                                       float sums[COLUMNS][4]) {
    const int t = threadIdx.x % 4;
    float largest[2] = {most[0], most[1]}, keep[2], shift[2];
    if (left < TILE) {
#pragma unroll
        for (int n = 0; n < EIGHTS; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                scores[n][i] = n * 8 + 2 * t + i % 2 < left ? scores[n][i] : -INFINITY;
            }
        }
    }
#pragma unroll
    for (int n = 0; n < EIGHTS; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            largest[i / 2] = fmaxf(largest[i / 2], scores[n][i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        largest[i] = largest_of(largest[i], 1, 4);
        keep[i] = power((most[i] - largest[i]) * scale);
        most[i] = largest[i];
        shift[i] = largest[i] * scale;
        total[i] *= keep[i];
    }
#pragma unroll
    for (int n = 0; n < EIGHTS; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            scores[n][i] = power(scores[n][i] * scale - shift[i / 2]);
            total[i / 2] += scores[n][i];
        }
    }
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[n][i] *= keep[i / 2];
        }
    }
}

/* One tile of keys and values for the queries of a warp; `left`: how many there are. */
template <class T, int WIDTH>
__device__ __forceinline__ void attend_tile(const T *keys, const T *values, int left, float scale,
                                            const uint32_t queries[WIDTH / 16][4], float most[2], float total[2],
                                            float sums[WIDTH / 8][4]) {
    float scores[EIGHTS][4] = {};
#pragma unroll
    for (int n = 0; n < EIGHTS; n += 2) {
        if (n * 8 < left) {
#pragma unroll
            for (int k = 0; k < WIDTH / 16; k++) {
                uint32_t right[4];
                load_keys(keys, tile<WIDTH>::ROW, n * 8, k * 16, right);
                multiply(T(), scores[n], queries[k], right);
                multiply(T(), scores[n + 1], queries[k], right + 2);
            }
        }
    }
    soften<WIDTH / 8>(left, scale, scores, most, total, sums);
#pragma unroll
    for (int k = 0; k < TILE / 16; k++) {
        if (k * 16 < left) {
            const uint32_t shares[4] = {pair(scores[2 * k][0], scores[2 * k][1], T()), pair(scores[2 * k][2], scores[2 * k][3], T()),
                                        pair(scores[2 * k + 1][0], scores[2 * k + 1][1], T()),
                                        pair(scores[2 * k + 1][2], scores[2 * k + 1][3], T())};
#pragma unroll
            for (int n = 0; n < WIDTH / 8; n += 2) {
                uint32_t right[4];
                load_values(values, tile<WIDTH>::ROW, n * 8, k * 16, right);
                multiply(T(), sums[n], shares, right);
                multiply(T(), sums[n + 1], shares, right + 2);
            }
        }
    }
}

template <class T, int WIDTH> __global__ void __launch_bounds__(THREADS) attend_tiles(struct attention what, float scale) {
    DYNAMIC_SHARED(T, room);
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, tokens = (int)what.own.tokens;
    const size_t offset = (size_t)blockIdx.y * WIDTH, picture = blockIdx.z, rows = picture * what.own.tokens * what.own.step + offset;
    const T *keys = (const T *)what.own.keys + rows, *values = (const T *)what.own.values + rows;
    const size_t of_warp = (size_t)blockIdx.x * TILE + threadIdx.x / WARP * 16, first = of_warp + g;
    uint32_t queries[WIDTH / 16][4];
    float most[2] = {-INFINITY, -INFINITY}, total[2] = {}, sums[WIDTH / 8][4] = {};
    send_tile<T, WIDTH>(keys, what.own.step, tokens, room);
    send_tile<T, WIDTH>(values, what.own.step, tokens, room + tile<WIDTH>::SIZE);
    send_end();
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        for (int i = 0; i < 4; i++) {
            const size_t query = first + i % 2 * 8;
            const T *from = (const T *)what.query + (picture * what.query_tokens + query) * what.query_step + offset;
            queries[k][i] =
                query < what.queries ? *reinterpret_cast<const uint32_t *>(from + k * 16 + i / 2 * 8 + 2 * t) : (uint32_t)0;
        }
    }
    for (int start = 0, turn = 0; start < tokens; start += TILE, turn ^= 1) {
        T *own = room + turn * 2 * tile<WIDTH>::SIZE, *next = room + (turn ^ 1) * 2 * tile<WIDTH>::SIZE;
        if (start + TILE < tokens) {
            const size_t at = (size_t)(start + TILE) * what.own.step;
            send_tile<T, WIDTH>(keys + at, what.own.step, tokens - start - TILE, next);
            send_tile<T, WIDTH>(values + at, what.own.step, tokens - start - TILE, next + tile<WIDTH>::SIZE);
            send_end();
            await<1>();
        } else {
            await<0>();
        }
        __syncthreads();
        if (of_warp < what.queries) {
            attend_tile<T, WIDTH>(own, own + tile<WIDTH>::SIZE, tokens - start, scale, queries, most, total, sums);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++) {
        const float share = 1.0F / sum_of(total[i], 1, 4);
        const size_t query = first + i * 8;
        T *made = (T *)what.to + (picture * what.queries + query) * what.heads * WIDTH + offset + 2 * t;
        for (int n = 0; n < WIDTH / 8; n++) {
            if (query < what.queries) {
                *reinterpret_cast<uint32_t *>(made + n * 8) = pair(sums[n][2 * i] * share, sums[n][2 * i + 1] * share, T());
            }
        }
    }
}

template <class T, int WIDTH> cudaError_t attend_with_tiles(cudaStream_t stream, const struct attention *what) {
    const dim3 grid((unsigned)((what->queries + TILE - 1) / TILE), (unsigned)what->heads, (unsigned)what->count);
    const float scale = 1.44269504F / sqrtf((float)WIDTH); /* scores are powers of 2 */
    return LAUNCH((attend_tiles<T, WIDTH>), grid, THREADS, 4 * tile<WIDTH>::SIZE * sizeof(T), stream, *what, scale);
}

template <class T> cudaError_t attend_narrow(cudaStream_t stream, const struct attention *what) {
    const bool aligned = what->own.step % 8 == 0 && what->query_step % 8 == 0 && what->own.tokens && !what->beside.tokens;
    switch (aligned ? what->width : 0) {
    case 32: return attend_with_tiles<T, 32>(stream, what);
    case 48: return attend_with_tiles<T, 48>(stream, what);
    case 64: return attend_with_tiles<T, 64>(stream, what);
    case 80: return attend_with_tiles<T, 80>(stream, what);
    case 96: return attend_with_tiles<T, 96>(stream, what);
    case 128: return attend_with_tiles<T, 128>(stream, what);
    default: return attend_any<T>(stream, what);
    }
}

} // namespace

cudaError_t net_attend(cudaStream_t stream, enum number_type type, const struct attention *what) {
    return type == NUMBER_FLOAT32   ? attend_any<float>(stream, what)
           : type == NUMBER_FLOAT16 ? attend_narrow<float16>(stream, what)
                                    : attend_narrow<bfloat16>(stream, what);
}
