/* Who holds a lock, in words. Nothing is written for that, so nothing can be out of date: the system lists its locks in /proc/locks
 * with the process that took each one. A process can pass a lock on to a child and end, and its number is used again; so the
 * process is named only if it has the lock file open. Where that may not be looked at (the process of another user), it must be
 * l3a. */
#include "base/file.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum { PROC_PATH = 64, PROGRAM = 24 };

/* The process that took the lock; 0: not known. */
static long find_process(const struct stat *wanted) {
    FILE *file = fopen("/proc/locks", "re");
    char line[256];
    long process = 0;
    while (file && !process && fgets(line, sizeof line, file)) {
        long number;
        unsigned major, minor;
        unsigned long long inode;
        if (sscanf(line, "%*d: FLOCK %*s WRITE %ld %x:%x:%llu", &number, &major, &minor, &inode) == 4 && number > 0 &&
            major == major(wanted->st_dev) && minor == minor(wanted->st_dev) && inode == wanted->st_ino) {
            process = number;
        }
    }
    if (file) {
        fclose(file);
    }
    return process;
}

enum finding { YES, NO, CANNOT_TELL };

static enum finding has_open(long process, const struct stat *wanted) {
    char path[PROC_PATH + NAME_MAX + 1];
    struct stat about;
    enum finding found = NO;
    snprintf(path, sizeof path, "/proc/%ld/fd", process);
    DIR *folder = opendir(path);
    if (!folder) {
        return CANNOT_TELL;
    }
    for (const struct dirent *entry; found == NO && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%ld/fd/%s", process, entry->d_name);
        if (stat(path, &about) == 0 && about.st_dev == wanted->st_dev && about.st_ino == wanted->st_ino) {
            found = YES;
        }
    }
    closedir(folder);
    return found;
}

/* The last part of a path, if it is a plain word; otherwise "". */
static void plain_name(const char *path, char name[PROGRAM]) {
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    const size_t length = strspn(last, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-");
    const bool plain = !last[length] && length < PROGRAM;
    memcpy(name, last, plain ? length : 0);
    name[plain ? length : 0] = '\0';
}

/* The program of a process, and its first argument. */
static void read_program(long process, char program[PROGRAM], char command[PROGRAM]) {
    char path[PROC_PATH], words[4096];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", process);
    FILE *file = fopen(path, "re");
    const size_t count = file ? fread(words, 1, sizeof words - 2, file) : 0;
    words[count] = words[count + 1] = '\0';
    plain_name(words, program);
    plain_name(words + strlen(words) + (count > 0), command);
    if (file) {
        fclose(file);
    }
}

bool describe_holder(const char *path, char text[HOLDER]) {
    char program[PROGRAM], command[PROGRAM];
    struct stat about;
    const long process = stat(path, &about) ? 0 : find_process(&about);
    const enum finding finding = process ? has_open(process, &about) : NO;
    snprintf(text, HOLDER, "another process");
    if (finding == NO) {
        return false;
    }
    read_program(process, program, command);
    const bool own = strcmp(program, "l3a") == 0, server = own && strcmp(command, "serve") == 0;
    if (server) {
        snprintf(text, HOLDER, "another l3a process (a server, pid %ld)", process);
    } else if (own && command[0]) {
        snprintf(text, HOLDER, "another l3a process (l3a %s, pid %ld)", command, process);
    } else if (finding == YES) {
        snprintf(text, HOLDER, "another process (%s%spid %ld)", program, program[0] ? ", " : "", process);
    }
    return server;
}
