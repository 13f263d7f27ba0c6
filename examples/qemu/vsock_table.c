/* SPDX-License-Identifier: Apache-2.0 */
/* The connections by their ports: see vsock_device.h. Enters: ports. Leaves: connections. */
#include "vsock_device.h"

#include "base/mem.h"

#define BUCKETS 1024

/*
 * The guest chooses ports on both sides, so it can put all of its connections into one bucket; there are 1023 of
 * them at most.
 */
static unsigned int bucket(uint32_t guest_port, uint32_t host_port)
{
	uint32_t h = guest_port * 0x9e3779b1u ^ host_port * 0x85ebca77u;

	return (h ^ h >> 15) % BUCKETS;
}

int vsock_table_new(struct vsock *vs)
{
	vs->table = mem_zalloc(BUCKETS * sizeof(*vs->table));
	return vs->table ? CCHV_OK : CCHV_ERR_NOMEM;
}

struct vsock_conn *vsock_table_find(const struct vsock *vs, uint32_t guest_port, uint32_t host_port)
{
	struct vsock_conn *conn;

	LIST_FOREACH(conn, &vs->table[bucket(guest_port, host_port)], table_link)
		if (conn->guest_port == guest_port && conn->host_port == host_port)
			return conn;
	return NULL;
}

void vsock_table_insert(struct vsock *vs, struct vsock_conn *conn)
{
	LIST_INSERT_HEAD(&vs->table[bucket(conn->guest_port, conn->host_port)], conn, table_link);
}

struct vsock_conn *vsock_table_any(const struct vsock *vs)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		if (!LIST_EMPTY(&vs->table[i]))
			return LIST_FIRST(&vs->table[i]);
	return NULL;
}

size_t vsock_table_list(const struct vsock *vs, uint32_t (*ports)[2], size_t max)
{
	struct vsock_conn *conn;
	size_t n = 0;

	for (unsigned int i = 0; i < BUCKETS; i++)
		LIST_FOREACH(conn, &vs->table[i], table_link) {
			if (n < max) {
				ports[n][0] = conn->guest_port;
				ports[n][1] = conn->host_port;
			}
			n++;
		}
	return n;
}
