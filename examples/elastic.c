/* A program in another language that follows its control file: it changes its number of threads while it runs, leaves
 * when it is no longer a member, and reports by printing. Plain POSIX threads.
 *
 *     cc -O2 -pthread -o elastic elastic.c -lm
 *     schedulearn run --cpus 1..4 -- ./elastic 200
 *
 * It fits a line to a noisy one by gradient descent; each thread takes its part of the points.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POINTS = 100000, MOST = 64 };
static double slope, offset; /* what is learned: 3 and -1 */
struct part { int first, last; double loss, by_slope, by_offset; };

static void *work(void *argument) {
    struct part *part = argument;
    for (int i = part->first; i < part->last; i++) {
        double x = 2.0 * i / POINTS - 1, wrong = slope * x + offset - (3 * x - 1 + 0.1 * sin(1e4 * x));
        part->loss += wrong * wrong, part->by_slope += 2 * wrong * x, part->by_offset += 2 * wrong;
    }
    return NULL;
}

static double step(int threads) {
    pthread_t ids[MOST];
    struct part parts[MOST] = {{0}}, all = {0};
    for (int i = 0; i < threads; i++) {
        parts[i].first = (long)POINTS * i / threads, parts[i].last = (long)POINTS * (i + 1) / threads;
        pthread_create(&ids[i], NULL, work, &parts[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        all.loss += parts[i].loss, all.by_slope += parts[i].by_slope, all.by_offset += parts[i].by_offset;
    }
    slope -= 0.2 * all.by_slope / POINTS, offset -= 0.2 * all.by_offset / POINTS;
    return all.loss / POINTS;
}

/* The control file is one line of flat JSON: looking for a key is enough. A file that is just being written tells
 * nothing, and the next step looks again. */
static void follow_control(int *threads, int *member) {
    char text[4096] = "", *at, *worker = getenv("SCHEDULEARN_WORKER");
    FILE *file = fopen(getenv("SCHEDULEARN_CONTROL") ? getenv("SCHEDULEARN_CONTROL") : "", "r");
    if (!file) return; /* also outside of Schedulearn */
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if ((at = strstr(text, "\"threads\":"))) *threads = atoi(at + 10);
    if (*threads < 1) *threads = 1;
    if (*threads > MOST) *threads = MOST;
    if ((at = strstr(text, "\"members\": [")) && worker) {
        int rank = atoi(strrchr(worker, '.') ? strrchr(worker, '.') + 1 : "0");
        *member = 0;
        for (at += 12; *at >= '0' && *at <= '9'; at += strspn(at, ", "))
            if (strtol(at, &at, 10) == rank) *member = 1;
    }
}

int main(int count, char **words) {
    long steps = count > 1 ? atol(words[1]) : 200;
    useconds_t pace = count > 2 ? (useconds_t)(atof(words[2]) * 1e6) : 0; /* seconds to wait after each step */
    int threads = 1, member = 1;
    setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines, at once */
    for (long i = 1; i <= steps; i++) {
        follow_control(&threads, &member);
        if (!member) return printf("leaving before step %ld\n", i), 0;
        double loss = step(threads);
        printf("step %ld loss=%.6f threads %d\n", i, loss, threads);
        usleep(pace);
    }
    return 0;
}
