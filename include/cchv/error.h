/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors. A call that can fail returns 0 or more on success and one negative enum cchv_err on failure; the
 * details (origin, errno, one line of text) are in the cchv_error that it may hand out through its last
 * parameter. The callee writes that parameter on entry (NULL) and on failure, so it need not be initialised.
 */
#ifndef CCHV_ERROR_H
#define CCHV_ERROR_H

#include <cchv/version.h>

CCHV_BEGIN_DECLS

/* What went wrong. Values are fixed for ever and only appended. */
enum cchv_err {
	CCHV_OK = 0,
	CCHV_ERR_NOMEM = -1,       /* out of memory in this process */
	CCHV_ERR_INVALID = -2,     /* an argument or a setting is wrong; nothing was changed */
	CCHV_ERR_STATE = -3,       /* not allowed in the object's present state */
	CCHV_ERR_TIMEOUT = -4,     /* the time given ran out */
	/* -5 is kept free: ctypes users mistake it for EIO */
	CCHV_ERR_NOT_FOUND = -6,   /* the named thing does not exist */
	CCHV_ERR_EXISTS = -7,      /* the name is taken, or the thing is in use */
	CCHV_ERR_UNSUPPORTED = -8, /* not offered by this library, VMM, kernel or host */
	CCHV_ERR_DENIED = -9,      /* the host refused for lack of rights */
	CCHV_ERR_SYSTEM = -10,     /* a system call failed: see cchv_error_errno() */
	CCHV_ERR_VMM = -11,        /* the VMM refused a request */
	CCHV_ERR_VMM_GONE = -12,   /* the VMM has ended */
	CCHV_ERR_GUEST = -13,      /* the guest's agent refused a request */
	CCHV_ERR_GUEST_GONE = -14, /* the guest's agent does not answer any more */
	CCHV_ERR_PROTOCOL = -15,   /* a peer or a file says something that makes no sense */
	CCHV_ERR_LIMIT = -16,      /* a limit of the library is reached */
	CCHV_ERR_FORKED = -17,     /* the object belongs to the parent process */
	CCHV_ERR_NOT_OWNER = -18   /* only the VM's owner may do this */
};

/* Where an error arose. Values are fixed for ever and only appended. */
enum cchv_origin {
	CCHV_ORIGIN_LIBRARY = 0, /* libcchv itself */
	CCHV_ORIGIN_SYSTEM = 1,  /* the host's kernel, or a program that the library ran */
	CCHV_ORIGIN_VMM = 2,     /* the VMM's answer */
	CCHV_ORIGIN_GUEST = 3    /* the agent's answer */
};

typedef struct cchv_error cchv_error;

/**
 * cchv_error_code() - the code of an error
 * @error: the error, or NULL
 *
 * Valid in: always.
 * Threads:  one at a time per error.
 * Since:    0.1
 *
 * Return: the enum cchv_err that the failed call returned; CCHV_OK for NULL.
 */
int cchv_error_code(const cchv_error *error);

/**
 * cchv_error_origin() - where an error arose
 * @error: the error, or NULL
 *
 * Valid in: always.
 * Threads:  one at a time per error.
 * Since:    0.1
 *
 * Return: an enum cchv_origin; CCHV_ORIGIN_LIBRARY for NULL.
 */
int cchv_error_origin(const cchv_error *error);

/**
 * cchv_error_errno() - the errno behind an error
 * @error: the error, or NULL
 *
 * An error of the guest carries the guest's errno, translated by name to the host's number.
 *
 * Valid in: always.
 * Threads:  one at a time per error.
 * Since:    0.1
 *
 * Return: an errno of this host, or 0 where none belongs to the error.
 */
int cchv_error_errno(const cchv_error *error);

/**
 * cchv_error_message() - one line for a person
 * @error: the error, or NULL
 *
 * The line names the object and the cause, without a line feed and without a full stop.
 *
 * Valid in: always.
 * Threads:  one at a time per error.
 * Since:    0.1
 *
 * Return: a string that lives as long as @error; "no error" for NULL.
 */
const char *cchv_error_message(const cchv_error *error);

/**
 * cchv_error_free() - free an error
 * @error: the error, or NULL
 *
 * Valid in: always.
 * Threads:  one at a time per error.
 * Since:    0.1
 */
void cchv_error_free(cchv_error *error);

/**
 * cchv_err_name() - the name of a code
 * @code: an enum cchv_err
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: such as "CCHV_ERR_TIMEOUT", static; "CCHV_ERR_UNKNOWN" for a number that is no code.
 */
const char *cchv_err_name(int code);

/**
 * cchv_err_text() - a few words on a code
 * @code: an enum cchv_err
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: such as "timed out", static, never NULL.
 */
const char *cchv_err_text(int code);

/**
 * cchv_free() - free a string that the library handed out
 * @memory: what a call gave through a `char **ret_` parameter, or NULL
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 */
void cchv_free(void *memory);

CCHV_END_DECLS

#endif
