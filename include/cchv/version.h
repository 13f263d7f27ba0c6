/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Version of the interface, and the marks that other headers need.
 * Not stable: until 1.0 a minor version may change any call.
 */
#ifndef CCHV_VERSION_H
#define CCHV_VERSION_H

#ifdef __cplusplus
#define CCHV_BEGIN_DECLS extern "C" {
#define CCHV_END_DECLS }
#else
#define CCHV_BEGIN_DECLS
#define CCHV_END_DECLS
#endif

#define CCHV_VERSION_MAJOR 0
#define CCHV_VERSION_MINOR 1
#define CCHV_VERSION_PATCH 0

CCHV_BEGIN_DECLS

/**
 * cchv_version() - the version of the loaded library
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: "MAJOR.MINOR.PATCH", static, never NULL.
 */
const char *cchv_version(void);

CCHV_END_DECLS

#endif
