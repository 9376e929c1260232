/* segments.c: see segments.h. */
#include "agent/segments.h"

#include <signal.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

void segments_sweep(void)
{
	if (getpid() != 1)
		return;
	struct shm_info info;
	int highest = shmctl(0, SHM_INFO, (struct shmid_ds *)&info);
	for (int i = 0; i <= highest; i++) {
		struct shmid_ds s;
		/* ANY: also those that their maker lets nobody read. */
		int id = shmctl(i, SHM_STAT_ANY, &s);
		if (id < 0 || s.shm_nattch || (s.shm_cpid > 0 && kill(s.shm_cpid, 0) == 0))
			continue;
		(void)shmctl(id, IPC_RMID, NULL);
	}
}
