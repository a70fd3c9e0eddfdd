/* Products XᵀX that are added to a symmetric matrix, wherever and in whatever type it is stored. A panel of its rows is computed at
 * a time: a rank update for the block on the diagonal, and a product for what lies beside it. Both are added while they are in the
 * cache. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

enum { GRAIN = 16 };

struct panel {
    const struct rank_product *product;
    size_t row, column, width; /* its first row and column, and the numbers in one of its rows */
};

static void add_panel_rows(void *argument, size_t first, size_t last) {
    const struct panel *panel = argument;
    const struct rank_product *product = panel->product;
    const size_t size = real_size(product->type);
    for (size_t n = first; n < last; n++) {
        const size_t i = panel->row + n, begin = product->upper ? i : 0, end = product->upper ? product->dim : i + 1;
        const char *numbers = (const char *)product->panel + (n * panel->width + begin - panel->column) * size;
        product->add(product->to, i, begin, end - begin, numbers);
    }
}

void cpu_add_product(const struct rank_product *product) {
    const size_t d = product->dim, size = real_size(product->type);
    const char *x = product->x;
    for (size_t first = 0; product->rows && first < d; first += product->panel_rows) {
        const size_t count = d - first < product->panel_rows ? d - first : product->panel_rows, last = first + count;
        struct panel panel = {product, first, product->upper ? first : 0, product->upper ? d - first : last};
        const size_t beside = product->upper ? last : 0; /* the first column of the block beside the one on the diagonal */
        char *to = product->panel;
        matrix_rank_update(product->threads, product->type, product->upper, count, product->rows, 1, x + first * size, d, 0,
                           to + (first - panel.column) * size, panel.width);
        matrix_multiply(product->threads, product->type, true, false, count, panel.width - count, product->rows, 1,
                        x + first * size, d, x + beside * size, d, 0, to + (beside - panel.column) * size, panel.width);
        parallel_for(product->threads, count, GRAIN, add_panel_rows, &panel);
    }
}

l3a_status cpu_panel_create(l3a_context *context, struct rank_product *product) {
    const size_t rows = work_size(context, 1) * sizeof(double) / real_size(product->type);
    product->threads = context->threads;
    product->panel_rows = rows < product->dim ? rows : product->dim;
    return allocate(context, product->panel_rows, product->dim * real_size(product->type), &product->panel);
}
