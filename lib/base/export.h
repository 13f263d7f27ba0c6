/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of a symbol that leaves the library; lib/libcchv.map has the list. */
#ifndef BASE_EXPORT_H
#define BASE_EXPORT_H

#define CCHV_API __attribute__((visibility("default")))

#endif
