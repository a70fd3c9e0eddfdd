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

const char *demo_backbone_bytes(size_t *count) {
    *count = (size_t)(demo_backbone_end - demo_backbone);
    return demo_backbone;
}
