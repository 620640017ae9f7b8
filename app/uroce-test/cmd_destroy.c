/* SPDX-License-Identifier: BSD-3-Clause */
/* destroy: destroys verbs objects. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "objects.h"

/** Names for completion: every object, and `all`, which must be the only argument. */
static const char *
any_names(unsigned int i)
{
	if (i == 0)
		return "all";
	i--;
	for (unsigned int k = 0; k < OBJECT_KINDS; k++) {
		unsigned int n;

		for (n = 0; object_at(k, n) != NULL; n++)
			if (i-- == 0)
				return object_at(k, n)->name;
	}
	return NULL;
}

static struct object *
find_any(const char *name)
{
	struct object *o = NULL;

	for (unsigned int k = 0; o == NULL && k < OBJECT_KINDS; k++)
		o = object_find(k, name);
	return o;
}

static int
destroy_one(struct call *c, const char *name)
{
	struct object *o = find_any(name);
	int rc;

	if (o->busy > 0)
		return call_fail(c, "%s: a workload runs on it: stop it first", name);
	if (o->users > 0)
		return call_fail(c, "%s: %u objects were made of it: destroy them first (`show object` lists them)", name, o->users);
	rc = object_destroy(o);
	if (rc != 0)
		return call_errno(c, name, rc);
	printf("%s destroyed\n", name);
	return 0;
}

static int
destroy_all(struct call *c)
{
	for (unsigned int i = 0; object_at(OBJECT_QP, i) != NULL; i++)
		if (object_at(OBJECT_QP, i)->busy > 0)
			return call_fail(c, "%s: a workload runs on it: stop it first", object_at(OBJECT_QP, i)->name);
	objects_destroy_all();
	puts("all objects destroyed");
	return 0;
}

static int
run_destroy(struct call *c)
{
	char name[OBJECT_NAME_BYTES];
	const char *list = call_text(c, "object");

	if (strcmp(list, "all") == 0)
		return destroy_all(c);
	while (true) {
		size_t n = strcspn(list, ",");

		snprintf(name, sizeof(name), "%.*s", (int)n, list);
		if (strcmp(name, "all") == 0)
			return call_fail(c, "'all' can't be combined with names");
		/* The user may have named an object twice: then it was destroyed already. */
		if (find_any(name) == NULL)
			return call_fail(c, "'%s': it is gone", name);
		if (destroy_one(c, name) != 0)
			return -1;
		if (list[n] == '\0')
			return 0;
		list += n + 1;
	}
}

static const struct arg args[] = {
	{ "object", "what `create` has made; several with commas between", ARG_NAME, ARG_NEEDED, .list = true, .names = any_names },
	{ 0 },
};
static const struct command table[] = {
	{ "destroy", "Destroy objects: all, or those named.", args, NULL, run_destroy },
	{ 0 },
};
COMMANDS(table)
