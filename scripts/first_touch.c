// Seconds that a machine takes to hand out memory: each GiB is mapped, and each page of it written once.
//
//     cc -O1 first_touch.c -o first_touch && ./first_touch GIB        pages of 4 KiB
//     ./first_touch GIB huge                                          pages of 2 MiB, where the system has them
//
// Run twice: on a virtual machine the first run also waits for its host to provide the memory.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: first_touch GIB [huge]\n");
        return 2;
    }
    const size_t gib = 1ul << 30;
    for (int at = 0; at < atoi(argv[1]); at++) {
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        double start = now();
        char *memory = mmap(NULL, gib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        if (argc > 2) madvise(memory, gib, MADV_HUGEPAGE);
        for (size_t byte = 0; byte < gib; byte += 4096) memory[byte] = 1;
        getrusage(RUSAGE_SELF, &after);
        double system = after.ru_stime.tv_sec - before.ru_stime.tv_sec + (after.ru_stime.tv_usec - before.ru_stime.tv_usec) * 1e-6;
        printf("GiB %d: %.2f s, %.2f s of them the system's, %ld faults\n", at + 1, now() - start, system,
               after.ru_minflt - before.ru_minflt);
    }
    return 0;
}
