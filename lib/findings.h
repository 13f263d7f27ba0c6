/* SPDX-License-Identifier: Apache-2.0 */
/* Making findings, for the objects. */
#ifndef LIB_FINDINGS_H
#define LIB_FINDINGS_H

#include <cchv/findings.h>

#include "base/error.h"

cchv_findings *findings_new(void);      /* NULL when out of memory */
/* Copies all; advice may be NULL. CCHV_OK or CCHV_ERR_NOMEM. A NULL findings takes nothing and is CCHV_OK. */
int findings_add(cchv_findings *findings, const char *name, int status, const char *text, const char *advice);

DEFINE_CLEANUP(findings, cchv_findings, cchv_findings_free)
#define cleanup_findings __attribute__((cleanup(findings_cleanup)))

#endif
