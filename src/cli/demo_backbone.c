/* The demo's backbone, from models/, embedded in the command. */
#include "cli.h"

__asm__(".section .rodata\n"
        ".balign 16\n"
        ".global demo_backbone\n"
        "demo_backbone:\n"
        ".incbin \"" L3A_DEMO_BACKBONE "\"\n"
        ".global demo_backbone_end\n"
        "demo_backbone_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char demo_backbone[], demo_backbone_end[];

l3a_status demo_backbone_write(l3a_context *context, const char *path) {
    return l3a_file_write(context, path, demo_backbone, (size_t)(demo_backbone_end - demo_backbone));
}
