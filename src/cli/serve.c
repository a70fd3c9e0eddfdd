/* l3a serve: a model over HTTP. The server itself is in src/serve; this reads the command line and opens the model. */
#include "cli.h"

#ifdef L3A_HAVE_SERVE
#include "indexed.h"
#include "serve/serve.h"
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct option serve_options[] = {
    {"listen", "ADDRESS:PORT", "where to listen; port 0 takes any that is free [127.0.0.1:8080]"},
    {"library", "DIR", "a folder of pictures to show and tag; it is only read, unless --write-xmp is given"},
    {"index", "FILE", "remember the pictures of the library in this file [MODEL.library]"},
    {"no-index", NULL, "do not remember them"},
    {"write-xmp", NULL, "write tags that were said or are sure beside the pictures of the library, as XMP files"},
    {"demo", NULL, "serve drawn pictures and a model that has one thing left to learn; MODEL is a folder [l3a-serve-demo]"},
    {"token-file", "FILE", "requests need the token in this file; for addresses that others can reach"},
    {"tokens", "FILE", "the same with several tokens: lines of a role (read, teach, admin), a token and perhaps a name"},
    {"insecure", NULL, "allow addresses that others can reach without a token"},
    {"base-path", "PATH", "what all paths begin with, behind a proxy that has other things at /"},
    {"host", "NAME", "a name by which browsers call this server, besides addresses and localhost"},
    {"heif", NULL, "also take HEIC and AVIF; libheif, which decodes them, is not safe against hostile files"},
    {"readonly", NULL, "only tag; take no lessons"},
    {"no-unlabelled", NULL, "lessons do not use the other pictures of the library"},
    {"backbone", "FILE", "the model's checkpoint, if the model does not know where it is; makes MODEL if there is none"},
    BACKBONE_OPTIONS("new model: "),
    {"batch", "N", "pictures that the backbone computes at a time [16]"},
    {"queue", "N", "pictures that may wait; more are refused with 429 [512]"},
    {"connections", "N", "connections at a time [4096]"},
    {"max-body", "MIB", "largest request, in MiB [64]"},
    {"cache", "MIB", "memory for features of pictures that were seen, in MiB [256]"},
    {"log", "text|json", "also log every request, and log in this form"},
    {"log-level", "error|warning|info|debug", "log nothing that matters less than this [info]"},
    {"log-file", "FILE", "log to this file; SIGHUP opens it again [stderr]"},
    {NULL, NULL, NULL},
};

#ifdef L3A_HAVE_SERVE
static bool read_tokens(const struct arguments *arguments, struct serve_options *options) {
    char problem[TOKEN_PROBLEM];
    const char *exposed;
    options->token_files = (struct token_files){argument(arguments, "token-file"), argument(arguments, "tokens")};
    if (!tokens_read(&options->token_files, options->tokens, problem, &exposed)) {
        complain(arguments, "%s", problem);
        print_hint(options->token_files.several ? "lines are 'ROLE TOKEN NAME'; make a token: head -c 24 /dev/urandom | base64"
                                                : "make one: head -c 24 /dev/urandom | base64 > %s",
                   options->token_files.single);
        return false;
    }
    if (exposed && !arguments->quiet) {
        fprintf(stderr, "warning: %s: others on this machine can read the token; use 'chmod 600'\n", exposed);
    }
    return true;
}

static bool read_base_path(const struct arguments *arguments, struct serve_options *options) {
    const char *path = argument(arguments, "base-path");
    options->base_path = path && strcmp(path, "/") != 0 ? path : "";
    if (options->base_path[0] && !serve_base_path_fits(path)) {
        complain(arguments, "--base-path %s: give a path such as /tags, of letters, digits, '-', '_' and '~'", path);
        return false;
    }
    return true;
}

static struct log *open_log(const struct arguments *arguments) {
    const char *path = argument(arguments, "log-file");
    const char *form = argument(arguments, "log") || path ? argument_choice(arguments, "log", "text|json", "text") : "";
    const char *level = argument_choice(arguments, "log-level", "error|warning|info|debug", "info");
    if (!form || !level) {
        return NULL;
    }
    struct log *log = log_open(form[0] == 'j'   ? LOG_JSON
                               : form[0] == 't' ? LOG_TEXT
                                                : LOG_NOTES,
                               level[0] == 'e'   ? LOG_ERROR
                               : level[0] == 'w' ? LOG_WARNING
                               : level[0] == 'i' ? LOG_INFO
                                                 : LOG_DEBUG,
                               path);
    if (!log) {
        complain(arguments, "%s: the log cannot be opened: %s", path ? path : "stderr", strerror(errno));
    }
    return log;
}

/* Other machines may only reach a server that asks for a token. */
static bool read_address(const struct arguments *arguments, struct serve_options *options) {
    const char *text = argument(arguments, "listen") ? argument(arguments, "listen") : "127.0.0.1:8080", *problem;
    if (!serve_address_parse(text, &options->address, &problem)) {
        complain(arguments, "--listen %s: %s", text, problem);
        return false;
    }
    if (!options->address.loopback && !options->tokens->count && !options->insecure) {
        complain(arguments, "--listen %s: others can reach this address", text);
        print_hint("give a token with --token-file FILE, or several with --tokens FILE, or allow everybody with --insecure");
        return false;
    }
    if (!serve_address_open(&options->address)) {
        complain(arguments, "cannot listen at %s: %s", text, strerror(errno));
        print_hint("choose another port with --listen ADDRESS:PORT; port 0 takes any that is free");
        return false;
    }
    return true;
}

/* What is about the index needs one. */
static bool check_index(const struct arguments *arguments, const struct serve_options *options) {
    const bool library = options->library || options->demo;
    const char *what = options->index ? "index FILE" : options->write_xmp ? "write-xmp" : NULL;
    if (what && !(library && options->remember)) {
        complain(arguments, "--%s: this needs the index of a library", what);
        print_hint("name a folder of pictures with --library DIR, and leave out --no-index");
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
    options->index = argument(arguments, "index");
    options->remember = !argument(arguments, "no-index");
    options->write_xmp = argument(arguments, "write-xmp") != NULL;
    options->host = argument(arguments, "host");
    options->insecure = argument(arguments, "insecure") != NULL;
    options->heif = argument(arguments, "heif") != NULL;
    options->readonly = argument(arguments, "readonly") != NULL;
    options->unlabelled = !argument(arguments, "no-unlabelled");
    options->demo = argument(arguments, "demo") != NULL;
    options->batch = (size_t)batch;
    options->queue = (size_t)queue;
    options->connections = (size_t)connections;
    options->body = body << 20;
    options->cache = cache << 20;
    options->workers = l3a_context_threads(arguments->context);
    return check_index(arguments, options) && read_base_path(arguments, options) && read_address(arguments, options);
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

static int network_options(const struct arguments *arguments, const char *path, l3a_backbone_options *options) {
    const char *given = backbone_argument_given(arguments);
    if (!backbone_arguments(arguments, options)) {
        return EXIT_USAGE;
    }
    return given && !access(path, F_OK) ? complain(arguments, "--%s is for a new model, and %s exists", given, path) : EXIT_DONE;
}

/* The tagger has a context of its own with one thread: its readers and the teacher have one each, and there are many of them. */
static int serve(const struct arguments *arguments, const char *path, struct serve_options *options) {
    const l3a_context_options context_options = {.size = sizeof context_options,
                                                 .threads = 1,
                                                 .device = arguments->device,
                                                 .on_event = serve_on_event,
                                                 .event_user = options->events};
    const bool create = argument(arguments, "backbone") && access(path, F_OK);
    l3a_backbone_options backbone;
    l3a_tagger_options tagger_options = {.size = sizeof tagger_options,
                                         .backbone = argument(arguments, "backbone"),
                                         .backbone_options = create ? &backbone : NULL,
                                         .commit = 1};
    l3a_context *context = NULL;
    l3a_lock *lock = NULL;
    l3a_tagger *tagger = NULL;
    const int usage = network_options(arguments, path, &backbone);
    if (usage != EXIT_DONE) {
        close(options->address.socket);
        return usage;
    }
    l3a_status status = l3a_context_create(&context_options, &context);
    if (status == L3A_OK && options->library && options->remember) {
        status = indexed_views(arguments, path, options->index, &tagger_options.views);
    }
    if (status == L3A_OK) {
        status = l3a_lock_take(context, path, 0, &lock);
    }
    if (status == L3A_OK) {
        status = create ? create_tagger(context, path, &tagger_options, &tagger)
                        : l3a_tagger_open(context, path, &tagger_options, &tagger);
    }
    const char *hint = l3a_error_hint(context);
    int code = explain_error(arguments, status, l3a_error_text(context),
                             lock || !hint[0] ? hint : "stop the other server or command that uses this model first");
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
    struct serve_events events = {.cancel = false};
    struct tokens tokens = {0};
    struct serve_options options = {.tokens = &tokens, .events = &events};
    const size_t most = 1, least = argument(arguments, "demo") ? 0 : 1;
    int code = EXIT_USAGE;
    if (arguments->positional_count < least || arguments->positional_count > most) {
        return complain_usage(arguments, "name one model file, or use --demo");
    }
    if (read_tokens(arguments, &options) && read_options(arguments, &options)) {
        events.log = open_log(arguments);
        if (events.log) {
            code = options.demo ? serve_demo(arguments, &options) : serve(arguments, arguments->positionals[0], &options);
        } else {
            close(options.address.socket);
        }
        log_close(events.log);
    }
    tokens_free(&tokens);
    return code;
}
#else
int serve_command(struct arguments *arguments) {
    complain(arguments, "this build has no server");
    print_hint("install libmicrohttpd-dev, and build again; a static build cannot have it");
    return EXIT_FAILED;
}
#endif
