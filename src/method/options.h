/* Settings: those of a model (learn/model_options.h), and those of the methods that experiments compare with it. */
#ifndef L3A_METHOD_OPTIONS_H
#define L3A_METHOD_OPTIONS_H

#include "learn/model_options.h"
#include "train/loss.h"

typedef enum l3a_memory_per { L3A_MEMORY_PER_METHOD, L3A_MEMORY_PER_CLASS, L3A_MEMORY_PER_RUN } l3a_memory_per;
typedef enum l3a_head_input { L3A_HEAD_INPUT_FEATURES, L3A_HEAD_INPUT_LAYER } l3a_head_input;

typedef enum l3a_train_backbone { L3A_TRAIN_BACKBONE_OFF, L3A_TRAIN_BACKBONE_ALL, L3A_TRAIN_BACKBONE_NORMS } l3a_train_backbone;

typedef enum l3a_csc_form { L3A_CSC_FORM_PAPER, L3A_CSC_FORM_CODE } l3a_csc_form;
typedef enum l3a_krt_leak { L3A_KRT_LEAK_OFF, L3A_KRT_LEAK_ON } l3a_krt_leak;

struct method_options {
    double ratio;              /* dsal: share of the second stream in the score */
    double kernel_width;       /* gkeal: width of a kernel, in typical distances between two images */
    double shrinkage;          /* slda: share of the identity in the covariance */
    l3a_loss loss;             /* this and the rest: heads trained by gradient descent */
    uint64_t epochs;           /* passes over a phase's images. Here and in the next five, 0 means the value tuned for the method */
    uint64_t batch;            /* images per step */
    double first_rate, rate;   /* highest learning rate, in the first phase and in later ones */
    double lambda;             /* weight of the term that the method adds to the loss: distillation, penalty */
    uint64_t memory;           /* number of images kept for replay */
    l3a_memory_per memory_per; /* memory is per class, or in all; method: in all for prs and ocdm, else per class */
    l3a_head_input head_input; /* train heads on the features, or on the random layer (dim, seed, skip_features) */
    double head_theta;         /* sigma(score) above which a class counts as predicted by a trained head */
    l3a_train_backbone train_backbone; /* whether, and what of it, the methods with trained heads train */
    double backbone_rate;              /* highest rate of the network; 0: that of the method */
    uint64_t krt_width;                /* krt: numbers in a token; 0: 768, for COCO 384 */
    l3a_krt_leak krt_leak;             /* krt-r: its exemplars get labels of later phases */
    l3a_csc_form csc_form;             /* csc: as the paper describes it, or as its authors' program trains */
    uint64_t given;                    /* settings that were given by name: bit i is line i of the table */
};

struct l3a_options {
    struct model_options model; /* first: learn/model_options.h looks at it through a pointer to the whole */
    struct method_options method;
    l3a_context *context; /* of an object that l3a_options_create() made; else NULL */
};

void options_default(l3a_options *options);

#endif
