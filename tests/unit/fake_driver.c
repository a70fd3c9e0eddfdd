/* Stands for NVIDIA's driver where there is none: it can be loaded. */
__attribute__((visibility("default"))) int fake_driver(void) {
    return 0;
}
