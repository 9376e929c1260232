/* segments.h: System V shared memory that its makers left behind (shmctl(2)): it outlives them, and
 * all of it is charged to the sandbox. */
#pragma once

/* Removes every segment that nothing is attached to and whose maker is dead. Does nothing where the
 * agent is not PID 1: it has no IPC namespace of its own then, and the segments are the host's. */
void segments_sweep(void);
