/* l3a serve: a model over HTTP. The server itself is in src/serve; this reads the command line and opens the model. */
#include "cli.h"

#ifdef L3A_HAVE_SERVE
#include "serve/serve.h"
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct option serve_options[] = {
    {"listen", "ADDRESS:PORT", "where to listen; port 0 takes any that is free [127.0.0.1:8080]"},
    {"library", "DIR", "a folder of pictures to show and tag; it is only read"},
    {"demo", NULL, "serve drawn pictures and a model that has one thing left to learn; MODEL is a folder [l3a-serve-demo]"},
    {"token-file", "FILE", "requests need the token in this file; for addresses that others can reach"},
    {"insecure", NULL, "allow addresses that others can reach without a token"},
    {"host", "NAME", "a name by which browsers call this server, besides addresses and localhost"},
    {"heif", NULL, "also take HEIC and AVIF; libheif, which decodes them, is not safe against hostile files"},
    {"readonly", NULL, "only tag; take no lessons"},
    {"backbone", "FILE", "the model's checkpoint, if the model does not know where it is; makes MODEL if there is none"},
    {"batch", "N", "pictures that the backbone computes at a time [16]"},
    {"queue", "N", "pictures that may wait; more are refused with 429 [512]"},
    {"connections", "N", "connections at a time [4096]"},
    {"max-body", "MIB", "largest request, in MiB [64]"},
    {"cache", "MIB", "memory for features of pictures that were seen, in MiB [256]"},
    {NULL, NULL, NULL},
};

#ifdef L3A_HAVE_SERVE
enum { TOKEN = 4096, SHORTEST_TOKEN = 16 };

static void show_note(const char *text) {
    fprintf(stderr, "l3a serve: %s\n", text);
}

/* What the library warns of, such as a damaged history. */
static int show_library_warning(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_WARNING) {
        show_note(event->text);
    }
    return 0;
}

/* The first line of the file. */
static bool read_token(const struct arguments *arguments, char token[TOKEN]) {
    const char *path = argument(arguments, "token-file");
    FILE *file = path ? fopen(path, "r") : NULL;
    struct stat about;
    const bool good = file && fgets(token, TOKEN, file);
    const bool open = file && fstat(fileno(file), &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH));
    if (file) {
        fclose(file);
    }
    if (!good) {
        complain(arguments, "%s: there is no token in this file", path);
        return false;
    }
    token[strcspn(token, "\r\n")] = '\0';
    if (strlen(token) < SHORTEST_TOKEN) {
        complain(arguments, "%s: the token is shorter than %d characters", path, SHORTEST_TOKEN);
        print_hint("make one: head -c 24 /dev/urandom | base64 > %s", path);
        return false;
    }
    if (open && !arguments->quiet) {
        fprintf(stderr, "warning: %s: others on this machine can read the token; use 'chmod 600'\n", path);
    }
    return true;
}

/* Other machines may only reach a server that asks for a token. */
static bool read_address(const struct arguments *arguments, struct serve_options *options) {
    const char *text = argument(arguments, "listen") ? argument(arguments, "listen") : "127.0.0.1:8080", *problem;
    if (!serve_address_parse(text, &options->address, &problem)) {
        complain(arguments, "--listen %s: %s", text, problem);
        return false;
    }
    if (!options->address.loopback && !options->token && !options->insecure) {
        complain(arguments, "--listen %s: others can reach this address", text);
        print_hint("give a token with --token-file FILE, or allow everybody with --insecure");
        return false;
    }
    if (!serve_address_open(&options->address)) {
        complain(arguments, "cannot listen at %s: %s", text, strerror(errno));
        print_hint("choose another port with --listen ADDRESS:PORT; port 0 takes any that is free");
        return false;
    }
    return true;
}

static bool read_options(const struct arguments *arguments, struct serve_options *options) {
    uint64_t batch = 16, queue = 512, connections = 4096, body = 64, cache = 256;
    if (!argument_integer(arguments, "batch", 1, 1024, &batch) || !argument_integer(arguments, "queue", 1, 100000, &queue) ||
        !argument_integer(arguments, "connections", 4, 100000, &connections) ||
        !argument_integer(arguments, "max-body", 1, 4096, &body) || !argument_integer(arguments, "cache", 0, 1 << 20, &cache)) {
        return false;
    }
    options->library = argument(arguments, "library");
    options->host = argument(arguments, "host");
    options->insecure = argument(arguments, "insecure") != NULL;
    options->heif = argument(arguments, "heif") != NULL;
    options->readonly = argument(arguments, "readonly") != NULL;
    options->demo = argument(arguments, "demo") != NULL;
    options->batch = (size_t)batch;
    options->queue = (size_t)queue;
    options->connections = (size_t)connections;
    options->body = body << 20;
    options->cache = cache << 20;
    options->workers = l3a_context_threads(arguments->context);
    options->note = show_note;
    return read_address(arguments, options);
}

/* A model without classes, to be taught. It is saved at once, so that its history has something to go on from. */
static l3a_status create_tagger(l3a_context *context, const char *path, const l3a_tagger_options *options, l3a_tagger **tagger) {
    l3a_options *settings = NULL;
    l3a_status status = l3a_options_create(context, &settings);
    if (status == L3A_OK) {
        status = l3a_lesson_settings(context, settings);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_create(context, path, settings, options, tagger);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_save(*tagger);
    }
    l3a_options_free(settings);
    return status;
}

/* The tagger has a context of its own with one thread: its readers and the teacher have one each, and there are many of them. */
static int serve(const struct arguments *arguments, const char *path, const struct serve_options *options) {
    const l3a_context_options context_options = {
        .size = sizeof context_options, .threads = 1, .device = arguments->device, .on_event = show_library_warning};
    const l3a_tagger_options tagger_options = {
        .size = sizeof tagger_options, .backbone = argument(arguments, "backbone"), .commit = 1};
    l3a_context *context = NULL;
    l3a_lock *lock = NULL;
    l3a_tagger *tagger = NULL;
    l3a_status status = l3a_context_create(&context_options, &context);
    if (status == L3A_OK) {
        status = l3a_lock_take(context, path, 0, &lock);
    }
    if (status == L3A_OK) {
        status = tagger_options.backbone && access(path, F_OK) ? create_tagger(context, path, &tagger_options, &tagger)
                                                               : l3a_tagger_open(context, path, &tagger_options, &tagger);
    }
    int code = explain_error(arguments, status, l3a_error_text(context), l3a_error_hint(context));
    if (code == EXIT_DONE) {
        code = serve_run(context, tagger, path, options) ? EXIT_FAILED : EXIT_DONE;
    } else {
        close(options->address.socket);
    }
    l3a_tagger_free(tagger);
    l3a_lock_free(lock);
    l3a_context_free(context);
    return code;
}

static int serve_demo(const struct arguments *arguments, struct serve_options *options) {
    const char *folder = arguments->positional_count ? arguments->positionals[0] : "l3a-serve-demo";
    const size_t size = strlen(folder) + 32;
    char *model = malloc(size), *pictures = malloc(size);
    int code = model && pictures ? make_served_demo(arguments, folder) : complain(arguments, "out of memory");
    if (code == EXIT_DONE) {
        snprintf(model, size, "%s/tagger.l3a", folder);
        snprintf(pictures, size, "%s/pictures", folder);
        options->library = options->library ? options->library : pictures;
        code = serve(arguments, model, options);
    } else {
        close(options->address.socket);
    }
    free(model);
    free(pictures);
    return code;
}

int serve_command(struct arguments *arguments) {
    struct serve_options options = {0};
    char token[TOKEN];
    const size_t most = 1, least = argument(arguments, "demo") ? 0 : 1;
    if (arguments->positional_count < least || arguments->positional_count > most) {
        return complain_usage(arguments, "name one model file, or use --demo");
    }
    if (argument(arguments, "token-file")) {
        if (!read_token(arguments, token)) {
            return EXIT_USAGE;
        }
        options.token = token;
    }
    if (!read_options(arguments, &options)) {
        return EXIT_USAGE;
    }
    return options.demo ? serve_demo(arguments, &options) : serve(arguments, arguments->positionals[0], &options);
}
#else
int serve_command(struct arguments *arguments) {
    complain(arguments, "this build has no server");
    print_hint("install libmicrohttpd-dev, and build again; a static build cannot have it");
    return EXIT_FAILED;
}
#endif
