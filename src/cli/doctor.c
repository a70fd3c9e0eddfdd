/* l3a doctor: what this machine will use, and what to install for what is missing. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* How threads wait for work; the command chooses sleeping unless the user has chosen. */
static void print_waiting(void) {
    const char *policy = getenv("OMP_WAIT_POLICY"), *spins = getenv("GOMP_SPINCOUNT");
    printf("waiting      %s%s%s%s\n", policy ? "OMP_WAIT_POLICY=" : "", policy ? policy : "",
           spins ? (policy ? ", GOMP_SPINCOUNT=" : "GOMP_SPINCOUNT=") : "",
           spins    ? spins
           : policy ? ""
                    : "as OpenMP chooses");
    if (policy && strcasecmp(policy, "passive") == 0) {
        printf("             set it for your own programs that use the library, too\n");
    } else {
        printf("             set OMP_WAIT_POLICY=passive if other programs use this machine at the same time\n");
    }
}

static bool reads_format(const char *name) {
    size_t i = 0;
    while (l3a_picture_format_at(i) && strcmp(l3a_picture_format_at(i), name) != 0) {
        i++;
    }
    return l3a_picture_format_at(i) != NULL;
}

/* The formats that this build reads, and those it could have been built to read. */
static void print_formats(void) {
    static const struct {
        const char *name, *package;
    } optional[] = {{"webp", "libwebp-dev"}, {"heic", "libheif-dev"}, {"avif", "libheif-dev"}};
    const char *needed = NULL, *also = NULL; /* packages */
    printf("pictures     ");
    for (size_t i = 0; l3a_picture_format_at(i); i++) {
        printf("%s%s", i ? ", " : "", l3a_picture_format_at(i));
    }
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        if (!reads_format(optional[i].name)) {
            printf(needed ? ", %s" : "\n             this build does not read %s", optional[i].name);
            also = needed && strcmp(needed, optional[i].package) != 0 ? optional[i].package : also;
            needed = needed ? needed : optional[i].package;
        }
    }
    printf("\n");
    if (needed) {
        printf("             install %s%s%s, and build again\n", needed, also ? " and " : "", also ? also : "");
    }
}

static void print_networks(void) {
    const char *engine = l3a_backbone_engine();
    printf("networks     %s, on the processor\n", engine);
    if (strcmp(engine, "onednn") != 0) {
        printf("             this build lacks oneDNN, which computes networks faster; install libdnnl-dev, and build again\n");
    }
}

static void print_server(void) {
#ifdef L3A_HAVE_SERVE
    printf("server       l3a serve, with its page\n");
#else
    printf("server       none: this build lacks libmicrohttpd\n"
           "             install libmicrohttpd-dev, and build again; a static build cannot have it\n");
#endif
}

/* What a plug-in adds, or what there is without it, why, and what to install. */
static void print_plugin(l3a_context *context, const char *name, const char *title, const char *with, const char *without) {
    if (l3a_plugin_check(context, name) == L3A_OK) {
        printf("%-12s %s\n", title, with);
    } else {
        printf("%-12s %s: %s\n", title, without, l3a_error_text(context));
        printf("             %s\n", l3a_error_hint(context));
    }
}

const struct option doctor_options[] = {
    {"backbone", "FILE", "measure how many pictures a second this checkpoint's network takes here, in each precision"},
    BACKBONE_OPTIONS(""),
    {NULL, NULL, NULL},
};

/* How fast the device is, and how fast it would learn. */
static void print_device_speed(const char *name) {
    const l3a_context_options options = {.size = sizeof options, .device = name};
    l3a_plan plan = {.size = sizeof plan};
    l3a_context *context = NULL;
    double single, exact;
    char text[32];
    if (l3a_context_create(&options, &context) != L3A_OK) {
        printf("             it cannot be used now: its memory may be full; see what nvidia-smi says\n");
        return;
    }
    if (l3a_device_speed(context, &single, &exact) != L3A_OK) {
        printf("             its speed is unknown: %s\n", l3a_error_text(context));
    } else if (l3a_model_plan(context, NULL, 2048, 80, &plan) == L3A_OK) {
        printf("             %.0f GFLOP/s in single precision, %.0f in double (measured now, with learning's own operations)\n",
               single * 1e-9, exact * 1e-9);
        printf("             dim 8192 from features 2048 wide: %s of its memory\n", size_text(plan.device_memory, text));
    }
    l3a_context_free(context);
}

/* All devices, or why there is none. */
static void print_devices(l3a_context *context) {
    char name[16], text[256];
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, "cuda:%d", i);
        if (l3a_device_describe(context, name, text, sizeof text) != L3A_OK) {
            break;
        }
        printf("device       %s: %s; --device %s uses it\n", name, text, i ? name : "cuda");
        print_device_speed(name);
    }
    if (strcmp(name, "cuda:0") == 0) {
        printf("device       no GPU: %s\n", l3a_error_text(context));
        printf("             %s\n", l3a_error_hint(context));
    }
}

/* How many pictures a second a network takes, of which there are copies of one. */
static l3a_status network_rate(l3a_backbone *backbone, double *rate) {
    enum { ROUNDS = 3 };
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    const size_t count = info->batch, size = 3 * info->size * info->size;
    float *pictures = calloc(count * size, sizeof *pictures), *features = calloc(count * info->width, sizeof *features);
    l3a_status status = pictures && features ? L3A_OK : L3A_ERROR_MEMORY;
    *rate = 0;
    for (int i = 0; status == L3A_OK && i <= ROUNDS; i++) { /* the first round is for warming up */
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        status = l3a_backbone_run(backbone, pictures, count, features);
        clock_gettime(CLOCK_MONOTONIC, &end);
        const double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        *rate = i && (double)count / seconds > *rate ? (double)count / seconds : *rate;
    }
    free(pictures);
    free(features);
    return status;
}

/* One line for each precision that the network can be computed in here. */
static l3a_status measure_network(l3a_context *context, const char *path, l3a_backbone_options *options) {
    static const struct {
        l3a_network_precision precision;
        const char *name;
    } precisions[] = {{L3A_NETWORK_FLOAT32, "float32"}, {L3A_NETWORK_BF16, "bf16"}, {L3A_NETWORK_FLOAT16, "float16"}};
    l3a_status status = L3A_OK;
    for (size_t i = 0; status == L3A_OK && i < sizeof precisions / sizeof *precisions; i++) {
        l3a_backbone *backbone = NULL;
        double rate;
        options->precision = precisions[i].precision;
        status = l3a_backbone_open(context, path, options, &backbone);
        const l3a_backbone_info *info = l3a_backbone_describe(backbone);
        const bool on_device = info && strcmp(info->engine, l3a_backbone_engine()) != 0;
        if (status == L3A_OK && !i) {
            printf("backbone     %s (%s on %s), %.1f million parameters, features %zu wide\n", info->name, info->engine,
                   on_device ? l3a_context_device(context) : "the processor", (double)info->parameters * 1e-6, info->width);
        }
        if (status == L3A_OK && info->computed == precisions[i].precision) {
            status = network_rate(backbone, &rate);
            if (status == L3A_OK) {
                printf("             %s: %.1f pictures/s (measured now, %zu x %zu, %zu at a time, without reading them)\n",
                       precisions[i].name, rate, info->size, info->size, info->batch);
            }
        } else if (status == L3A_OK && (on_device || precisions[i].precision != L3A_NETWORK_FLOAT16)) { /* which no processor has */
            printf("             %s: cannot be computed here\n", precisions[i].name);
        }
        l3a_backbone_free(backbone);
    }
    return status;
}

static int print_network_speed(const struct arguments *arguments, const char *path) {
    /* Without events, because nobody needs a warning of a precision that cannot be had. */
    const l3a_context_options context_options = {.size = sizeof context_options,
                                                 .threads = l3a_context_threads(arguments->context),
                                                 .device = l3a_context_device(arguments->context)};
    l3a_backbone_options options;
    l3a_context *context = NULL;
    if (!backbone_arguments(arguments, &options)) {
        return EXIT_USAGE;
    }
    for (size_t c = 0; c < 3; c++) { /* mean and deviation make no difference here */
        options.mean[c] = options.deviation[c] = 0.5F;
    }
    l3a_status status = l3a_context_create(&context_options, &context);
    if (status == L3A_OK) {
        status = measure_network(context, path, &options);
    }
    const int code = explain_error(arguments, status, l3a_error_text(context), l3a_error_hint(context));
    l3a_context_free(context);
    return code;
}

/* Where the features of l3a run --data are kept. */
static void print_cache(l3a_context *context) {
    enum { PATH = 4096 };
    char folder[PATH], text[32];
    uint64_t files, bytes;
    l3a_status status = l3a_cache_folder(context, folder, sizeof folder);
    if (status == L3A_OK) {
        status = l3a_cache_measure(context, folder, &files, &bytes);
    }
    if (status != L3A_OK) {
        printf("cache        none: %s\n", l3a_error_text(context));
    } else if (files) {
        printf("cache        %s, %" PRIu64 " %s of features, %s\n", folder, files, plural(files, "file", "files"),
               size_text(bytes, text));
    } else {
        printf("cache        %s, empty\n", folder);
    }
}

int doctor_command(struct arguments *arguments) {
    l3a_machine machine = {.size = sizeof machine};
    l3a_plan plan = {.size = sizeof plan};
    double single, exact;
    char text[32];
    if (arguments->positional_count) {
        return complain(arguments, "'%s' is not expected here", arguments->positionals[0]);
    }
    if (!argument(arguments, "backbone") && backbone_argument_given(arguments)) {
        return complain(arguments, "--%s needs --backbone", backbone_argument_given(arguments));
    }
    if (argument(arguments, "backbone")) {
        return print_network_speed(arguments, argument(arguments, "backbone"));
    }
    l3a_status status = l3a_machine_query(arguments->context, &machine);
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    printf("l3a          %s, built with %s\n", l3a_version(), machine.compiler);
    printf("processor    %s, %s\n", machine.processor, machine.instructions);
    printf("threads      %d of %d processors\n", machine.threads, machine.processors);
    print_waiting();
    printf("memory       %s", size_text(machine.memory_total, text));
    printf(", %s free\n", size_text(machine.memory_available, text));
    print_formats();
    printf("matrices     %s\n", machine.blas);
    if (strstr(machine.blas, "OpenBLAS") && !strstr(machine.blas, "USE_OPENMP")) {
        printf("             it has threads of its own, and --threads does not limit them; install libopenblas0-openmp, or set\n"
               "             OPENBLAS_NUM_THREADS\n");
    }
    if (machine.better_kernels[0]) {
        printf("             these kernels are slow; set OPENBLAS_CORETYPE=%s\n", machine.better_kernels);
    } else if (getenv("OPENBLAS_CORETYPE")) {
        printf("             chosen by OPENBLAS_CORETYPE=%s; set it for your own programs that use the library, too\n",
               getenv("OPENBLAS_CORETYPE"));
    }
    print_networks();
    print_server();
    print_cache(arguments->context);
    print_plugin(arguments->context, "figure", "figures", "SVG, PDF and PNG", "only SVG");
    print_plugin(arguments->context, "mpi", "MPI", "processes that mpirun or srun starts learn together", "no MPI");
    print_devices(arguments->context);
    status = l3a_machine_speed(arguments->context, &single, &exact);
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    printf("speed        %.0f GFLOP/s in single precision, %.0f in double (measured now, with 1024 x 1024 matrices)\n",
           single * 1e-9, exact * 1e-9);
    if (l3a_model_plan(arguments->context, NULL, 2048, 80, &plan) == L3A_OK) {
        printf("learning     dim 8192 from features 2048 wide: about %.0f rows/s, %s of memory\n", single / plan.row_flops,
               size_text(plan.memory, text));
    }
    return EXIT_DONE;
}
