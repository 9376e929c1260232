/* config.c: the policy's section `audit`: see audit.h. */
#include "audit/audit.h"

#include "base/limits.h"

int audit_config_check(const struct audit_config *c, struct err *err)
{
	if (c->interval_ms < 10 || c->interval_ms > 60 * 1000)
		return err_set(
			err, ERR_INVALID_ARGUMENT, 0, "audit.interval_ms is from 10 to 60000");
	if (c->max_bytes < MIB || c->max_bytes > 1024 * GIB)
		return err_set(
			err, ERR_INVALID_ARGUMENT, 0, "audit.max_bytes is from 1 MiB to 1 TiB");
	if (c->keep < 1 || c->keep > 10 * 1000)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "audit.keep is from 1 to 10000");
	return 0;
}
