/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: lines of a report, each with a stable name, a status, a text and, where something can be
 * done, an advice. cchv_ctx_probe() fills them with what is here and what is missing, the prune calls
 * with what they removed.
 */
#ifndef CCHV_FINDINGS_H
#define CCHV_FINDINGS_H

#include <stdint.h>

#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_findings cchv_findings;

/* Status of a finding. Values are only ever appended. */
enum cchv_finding {
	CCHV_FINDING_OK = 0,      /* here, and it works */
	CCHV_FINDING_WARN = 1,    /* VMs start, but with a loss, or it could not be removed; the text says why */
	CCHV_FINDING_MISSING = 2, /* not here or not working, and no VM starts without it */
	CCHV_FINDING_REMOVED = 3  /* from a prune call: it was there, and it is gone now */
};

/**
 * cchv_findings_get_count() - tell how many findings there are
 * @findings: the report
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the count, 0 or more; 0 for NULL.
 */
int cchv_findings_get_count(cchv_findings *findings);

/**
 * cchv_findings_get_name() - lend the name of a finding
 * @findings: the report
 * @index:    which finding, from 0
 *
 * For programs: names such as "vmm" or "mkfs.erofs" keep their meaning in later versions. A name
 * may come more than once (each VM that was removed is a "vm").
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the name, valid until the findings are freed; NULL when @index is out of range.
 */
const char *cchv_findings_get_name(cchv_findings *findings, int index);

/**
 * cchv_findings_get_status() - tell the status of a finding
 * @findings: the report
 * @index:    which finding, from 0
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: one of enum cchv_finding, or CCHV_ERR_INVALID when @index is out of range.
 */
int cchv_findings_get_status(cchv_findings *findings, int index);

/**
 * cchv_findings_get_text() - lend the text of a finding
 * @findings: the report
 * @index:    which finding, from 0
 *
 * For people: one line that says what was found (a path, a version, a reason).
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the text, valid until the findings are freed; NULL when @index is out of range.
 */
const char *cchv_findings_get_text(cchv_findings *findings, int index);

/**
 * cchv_findings_get_advice() - lend the advice of a finding
 * @findings: the report
 * @index:    which finding, from 0
 *
 * For people: one line that says what to do about it.
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the advice, valid until the findings are freed; NULL when nothing needs to be done or
 *         @index is out of range.
 */
const char *cchv_findings_get_advice(cchv_findings *findings, int index);

/**
 * cchv_findings_free() - free findings
 * @findings: the report; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 */
void cchv_findings_free(cchv_findings *findings);

CCHV_END_DECLS

#endif /* CCHV_FINDINGS_H */
