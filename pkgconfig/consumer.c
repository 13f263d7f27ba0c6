/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's program: what a user writes first. It prints the version of the library that it runs with. */
#include <cchv/cchv.h>
#include <stdio.h>

int main(void)
{
	cchv_error *err;
	cchv_ctx *ctx;

	if (cchv_ctx_new(&ctx, &err) < 0)
		return 1;
	puts(cchv_version());
	cchv_ctx_free(ctx);
	return 0;
}
