/* The grid of processes. */
#include "algebra/scalapack/scalapack.h"

/* Of the BLACS, ScaLAPACK's layer for messages. */
int Csys2blacs_handle(MPI_Comm communicator);
void Cfree_blacs_system_handle(int handle);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridexit(int context);

enum { BLOCK = 256, PIECE = 1 << 26 };

/* As square as possible, since rows travel along rows and columns of the grid: P is the largest divisor up to √R. */
static size_t choose_rows(size_t processes) {
    size_t rows = 1;
    for (size_t i = 2; i * i <= processes; i++) {
        rows = processes % i ? rows : i;
    }
    return rows;
}

l3a_status scalapack_open(l3a_context *context, const struct plugin_host *host, MPI_Comm communicator, size_t block) {
    l3a_status status = L3A_OK;
    int processes, process;
    struct grid *grid;
    MPI_Comm_size(communicator, &processes);
    MPI_Comm_rank(communicator, &process);
    TRY(host->allocate(context, 1, sizeof *grid, &grid));
    *grid = (struct grid){.host = host, .rows = choose_rows((size_t)processes), .block = block ? block : BLOCK};
    grid->columns = (size_t)processes / grid->rows;
    grid->at_row = (size_t)process / grid->columns;
    grid->at_column = (size_t)process % grid->columns;
    MPI_Comm_dup(communicator, &grid->all);
    MPI_Comm_set_errhandler(grid->all, MPI_ERRORS_ARE_FATAL); /* without the tiles of another process, nothing can go on */
    MPI_Comm_split(grid->all, (int)grid->at_row, process, &grid->row);
    MPI_Comm_split(grid->all, (int)grid->at_column, process, &grid->column);
    const int handle = Csys2blacs_handle(grid->all);
    grid->blacs = handle;
    Cblacs_gridinit(&grid->blacs, "Row", (int)grid->rows, (int)grid->columns);
    Cfree_blacs_system_handle(handle);
    context->shared_algebra = &scalapack_algebra;
    context->shared = grid;
done:
    return status;
}

void scalapack_close(l3a_context *context) {
    struct grid *grid = context->shared;
    if (!grid) {
        return;
    }
    Cblacs_gridexit(grid->blacs);
    MPI_Comm_free(&grid->row);
    MPI_Comm_free(&grid->column);
    MPI_Comm_free(&grid->all);
    grid->host->release(context, grid);
    context->shared_algebra = NULL;
    context->shared = NULL;
}

l3a_status grid_agree(const struct grid *grid, l3a_context *context, l3a_status status) {
    int worst = (int)status;
    MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, grid->all);
    return status == L3A_OK && worst != (int)L3A_OK
               ? grid->host->fail(context, (l3a_status)worst, "its message says why", "another process cannot continue")
               : status;
}

/* MPI promises the same bits to all processes only where one of them has computed the numbers. */
void grid_sum(const struct grid *grid, double *values, size_t count) {
    for (size_t first = 0; first < count; first += PIECE) {
        const int n = (int)(count - first < PIECE ? count - first : PIECE);
        const bool own = !grid->at_row && !grid->at_column;
        MPI_Reduce(own ? MPI_IN_PLACE : values + first, values + first, n, MPI_DOUBLE, MPI_SUM, 0, grid->all);
        MPI_Bcast(values + first, n, MPI_DOUBLE, 0, grid->all);
    }
}

void grid_collect(const struct grid *grid, double *values, size_t count) {
    for (size_t first = 0; first < count; first += PIECE) {
        const int n = (int)(count - first < PIECE ? count - first : PIECE);
        MPI_Allreduce(MPI_IN_PLACE, values + first, n, MPI_DOUBLE, MPI_SUM, grid->all);
    }
}
