/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of JSON objects. */
#include <stdio.h>

#include "daemon.h"

const char *
text_of(json_object *o, const char *name)
{
	json_object *m;

	return json_object_object_get_ex(o, name, &m) ? json_object_get_string(m) : "";
}

uint64_t
value_of(json_object *o, const char *name)
{
	json_object *m;

	return json_object_object_get_ex(o, name, &m) ? json_object_get_uint64(m) : 0;
}

char *
joined(json_object *o, const char *name, const char *between)
{
	json_object *m;
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	if (f == NULL)
		return NULL;
	if (json_object_object_get_ex(o, name, &m)) {
		if (!json_object_is_type(m, json_type_array))
			fputs(json_object_get_string(m), f);
		else
			for (size_t i = 0; i < json_object_array_length(m); i++)
				fprintf(f, "%s%s", i > 0 ? between : "", json_object_get_string(json_object_array_get_idx(m, i)));
	}
	fclose(f);
	return text;
}
