/* Prints the head of a file in a tar, for test_backup.py: tar_heads NAME SIZE SECONDS. */
#include "serve/tar.h"

#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    struct text head = {0};
    if (count != 4) {
        return 2;
    }
    tar_head(&head, words[1], strtoull(words[2], NULL, 10), 0640, strtoll(words[3], NULL, 10));
    const int failed = head.failed || fwrite(head.bytes, 1, head.length, stdout) != head.length;
    text_free(&head);
    return failed;
}
