/* A library that is no plug-in. */
__attribute__((visibility("default"))) int l3a_plugin_other(void) {
    return 0;
}
