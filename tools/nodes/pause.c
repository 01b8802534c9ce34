/* The container that holds a Pod's namespaces: it waits, and reaps what the others leave when they share its process namespace.
 * With -v it only ends well: kubeadm upgrade starts it so to see whether the cluster can run a Job, and waits 15 s for one that does not end. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
    (void)signal;
    _exit(0);
}

static void reap(int signal) {
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "-v") == 0) {
        return 0;
    }
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGCHLD, reap);
    for (;;) {
        pause();
    }
}
