/* SPDX-License-Identifier: Apache-2.0 */
/* Empty on purpose: check_headers.py declares what pycparser needs of <stdint.h>. */
