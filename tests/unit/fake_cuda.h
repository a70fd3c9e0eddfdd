/* What a test tells the CUDA of fake_cuda.c, and what it says. The plug-in made with it exports one of these, l3a_fake_cuda. */
#ifndef L3A_FAKE_CUDA_H
#define L3A_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>

enum fake_failure { NO_MEMORY, LAUNCH_FAILURE, DEVICE_LOST };

struct fake_cuda {
    size_t failing;            /* the number of the call that fails, from 1; 0: none */
    enum fake_failure failure; /* a lost device fails in every call that follows, too */
    int driver;                /* the version that it is for; 0: there is none */
    int devices, count_code;   /* what counting the devices says */
    int major;                 /* of the compute capability */
    size_t calls;              /* so far */
    const char *failed;        /* the first call that failed; NULL: none has */
    long objects;              /* memory, streams, events, pools and handles that are held */
    size_t misuses;            /* frees of what is not held, and copies beyond it */
    size_t bytes, most_bytes;  /* of the device's memory that are held, and the most that have been */
};

#endif
