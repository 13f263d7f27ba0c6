/* SPDX-License-Identifier: Apache-2.0 */
/* Rings crafted in memory: what the guest may write there, and what it may not. */
#include "test.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "examples/qemu/virtqueue.h"

#define NUM 8
#define USER 0x7f0000000000ull
#define DESC 0x0
#define AVAIL 0x1000
#define USED 0x2000
#define TABLE 0x3000
#define DATA 0x8000
#define LOW_SIZE 0x10000
/* A second region follows the first in the guest without a gap; a third after one. */
#define HIGH LOW_SIZE
#define HIGH_SIZE 0x4000
#define FAR 0x100000000ull

static struct guest_mem mem;
static struct virtqueue vq;
static uint8_t *ram;
static struct vring_desc *desc;
static struct vring_avail *avail;
static struct vring_used *used;
static struct iovec iov[64];
static struct virtqueue_chain chain;

static void add_region(int fd, uint64_t guest, uint64_t size, uint64_t offset)
{
	const struct guest_range range = { .guest = guest, .size = size, .user = USER + guest };

	CHECK_INT(guest_mem_add(&mem, &range, fd, offset, NULL), 0);
}

static void set_up(void)
{
	cleanup_close int fd = memfd_create("ram", MFD_CLOEXEC);

	CHECK_INT(ftruncate(fd, LOW_SIZE + 2 * HIGH_SIZE), 0);
	ram = mmap(NULL, LOW_SIZE + 2 * HIGH_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(ram != MAP_FAILED);
	/* The second region lies elsewhere in the file, so that a buffer over the border is in two pieces. */
	add_region(fd, FAR, HIGH_SIZE, LOW_SIZE);
	add_region(fd, 0, LOW_SIZE, 0);
	add_region(fd, HIGH, HIGH_SIZE, LOW_SIZE + HIGH_SIZE);
	desc = (void *)(ram + DESC);
	avail = (void *)(ram + AVAIL);
	used = (void *)(ram + USED);
	virtqueue_init(&vq);
	vq.num = NUM;
	vq.desc_user = USER + DESC;
	vq.avail_user = USER + AVAIL;
	vq.used_user = USER + USED;
	CHECK_INT(virtqueue_start(&vq, &mem, 0, NULL), 0);
}

static void tear_down(void)
{
	guest_mem_clear(&mem);
	munmap(ram, LOW_SIZE + 2 * HIGH_SIZE);
}

static void describe(struct vring_desc *d, uint64_t addr, uint32_t len, unsigned int flags, uint16_t next)
{
	*d = (struct vring_desc){ .addr = addr, .len = len, .flags = (uint16_t)flags, .next = next };
}

static void offer(uint16_t head)
{
	avail->ring[avail->idx % NUM] = head;
	avail->idx++;
}

static int pop(void)
{
	return virtqueue_pop(&vq, &mem, iov, 64, &chain);
}

static void check_broken(const char *why)
{
	CHECK_INT(pop(), CCHV_ERR_PROTOCOL);
	CHECK_CONTAINS(vq.broken, why);
	/* And it stays so, whatever the guest offers now. */
	describe(&desc[7], DATA, 1, 0, 0);
	offer(7);
	CHECK_INT(pop(), CCHV_ERR_PROTOCOL);
	CHECK_INT(virtqueue_want_kicks(&vq), 0);
	tear_down();
}

TEST(a_chain_gives_its_pieces_in_order)
{
	set_up();
	CHECK_INT(pop(), 0);
	describe(&desc[3], DATA, 44, VRING_DESC_F_NEXT, 5);
	describe(&desc[5], DATA + 0x100, 100, VRING_DESC_F_NEXT, 0);
	describe(&desc[0], DATA + 0x200, 200, VRING_DESC_F_WRITE, 0);
	offer(3);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.head, 3);
	CHECK_INT(chain.out_count, 2);
	CHECK_INT(chain.in_count, 1);
	CHECK_INT(chain.out_len, 144);
	CHECK_INT(chain.in_len, 200);
	CHECK_INT(chain.iov[1].iov_len, 100);
	((char *)chain.iov[1].iov_base)[99] = 'x';
	CHECK_INT(ram[DATA + 0x100 + 99], 'x');
	CHECK_INT(pop(), 0);
	tear_down();
}

TEST(a_buffer_over_the_border_of_two_regions_is_two_pieces)
{
	set_up();
	describe(&desc[0], HIGH - 10, 30, VRING_DESC_F_WRITE, 0);
	offer(0);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.in_count, 2);
	CHECK_INT(chain.iov[0].iov_len, 10);
	CHECK_INT(chain.iov[1].iov_len, 20);
	memset(chain.iov[1].iov_base, 'y', 20);
	CHECK_INT(ram[LOW_SIZE + HIGH_SIZE], 'y');
	tear_down();
}

TEST(an_indirect_table_may_end_a_chain)
{
	struct vring_desc *table;

	set_up();
	table = (void *)(ram + TABLE);
	describe(&desc[0], DATA, 10, VRING_DESC_F_NEXT, 1);
	describe(&desc[1], TABLE, 3 * sizeof(*table), VRING_DESC_F_INDIRECT, 0);
	describe(&table[0], DATA + 10, 20, VRING_DESC_F_NEXT, 2);
	describe(&table[2], DATA + 30, 30, 0, 0);
	offer(0);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.out_count, 3);
	CHECK_INT(chain.out_len, 60);
	tear_down();
}

TEST(a_loop_breaks_the_queue)
{
	set_up();
	describe(&desc[0], DATA, 10, VRING_DESC_F_NEXT, 1);
	describe(&desc[1], DATA, 10, VRING_DESC_F_NEXT, 0);
	offer(0);
	check_broken("does not end");
}

TEST(a_loop_inside_an_indirect_table_breaks_the_queue)
{
	set_up();
	describe(&desc[0], TABLE, 16, VRING_DESC_F_INDIRECT, 0);
	describe((void *)(ram + TABLE), DATA, 10, VRING_DESC_F_NEXT, 0);
	offer(0);
	check_broken("does not end");
}

TEST(an_indirect_table_in_an_indirect_table_breaks_the_queue)
{
	set_up();
	describe(&desc[0], TABLE, 32, VRING_DESC_F_INDIRECT, 0);
	describe((void *)(ram + TABLE), TABLE + 16, 16, VRING_DESC_F_INDIRECT, 0);
	describe((void *)(ram + TABLE + 16), DATA, 10, 0, 0);
	offer(0);
	check_broken("inside an indirect table");
}

TEST(indirect_tables_of_wrong_size_or_place_break_the_queue)
{
	static const struct {
		uint64_t addr;
		uint32_t len;
		unsigned int flags;
		const char *why;
	} cases[] = {
		{ TABLE, 0, VRING_DESC_F_INDIRECT, "impossible size" },
		{ TABLE, 15, VRING_DESC_F_INDIRECT, "impossible size" },
		{ TABLE, 16 * (NUM + 1), VRING_DESC_F_INDIRECT, "impossible size" },
		{ TABLE, 0xfffffff0u, VRING_DESC_F_INDIRECT, "impossible size" },
		{ TABLE + 8, 16, VRING_DESC_F_INDIRECT, "not aligned" },
		{ LOW_SIZE - 16, 32, VRING_DESC_F_INDIRECT, "outside" },
		{ 0xfffffffffffffff0ull, 32, VRING_DESC_F_INDIRECT, "outside" },
		{ TABLE, 16, VRING_DESC_F_INDIRECT | VRING_DESC_F_NEXT, "not the last" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up();
		describe(&desc[0], cases[i].addr, cases[i].len, cases[i].flags, 1);
		describe(&desc[1], DATA, 1, 0, 0);
		offer(0);
		check_broken(cases[i].why);
	}
}

TEST(buffers_outside_the_memory_break_the_queue)
{
	static const struct {
		uint64_t addr;
		uint32_t len;
	} cases[] = {
		{ HIGH + HIGH_SIZE, 1 },              /* in the gap */
		{ HIGH + HIGH_SIZE - 1, 2 },          /* into the gap */
		{ DATA, 0xffffffffu },                /* far beyond */
		{ FAR - 1, 2 },                       /* out of the gap */
		{ FAR + HIGH_SIZE, 1 },               /* after everything */
		{ 0xffffffffffffffffull, 1 },         /* the end of the world: wraps to 0 */
		{ 0xffffffffffffff00ull, 0x10000 },   /* wraps into the memory */
		{ 0xffffffffff000000ull, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up();
		describe(&desc[0], cases[i].addr, cases[i].len, VRING_DESC_F_WRITE, 0);
		offer(0);
		check_broken("outside the guest's memory");
	}
	set_up();
	describe(&desc[0], DATA, 0, 0, 0);
	offer(0);
	check_broken("empty buffer");
}

TEST(heads_and_links_beyond_the_table_break_the_queue)
{
	set_up();
	offer(NUM);
	check_broken("a head beyond");

	set_up();
	describe(&desc[0], DATA, 1, VRING_DESC_F_NEXT, NUM);
	offer(0);
	check_broken("a descriptor beyond");

	set_up();
	describe(&desc[0], TABLE, 16, VRING_DESC_F_INDIRECT, 0);
	describe((void *)(ram + TABLE), DATA, 1, VRING_DESC_F_NEXT, 1);
	offer(0);
	check_broken("a descriptor beyond");
}

TEST(a_readable_buffer_after_a_writable_one_breaks_the_queue)
{
	set_up();
	describe(&desc[0], DATA, 1, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE, 1);
	describe(&desc[1], DATA, 1, 0, 0);
	offer(0);
	check_broken("readable buffer after");
}

TEST(an_index_that_runs_ahead_breaks_the_queue)
{
	set_up();
	avail->idx = NUM + 1;
	check_broken("ran ahead");
	set_up();
	avail->idx = 0xffff;
	check_broken("ran ahead");
}

TEST(a_chain_in_too_many_pieces_is_not_taken)
{
	set_up();
	describe(&desc[0], DATA, 1, VRING_DESC_F_NEXT, 1);
	describe(&desc[1], DATA, 1, VRING_DESC_F_NEXT, 2);
	describe(&desc[2], DATA, 1, 0, 0);
	offer(0);
	CHECK_INT(virtqueue_pop(&vq, &mem, iov, 2, &chain), CCHV_ERR_LIMIT);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.out_count, 3);
	tear_down();
}

TEST(read_only_memory_can_be_sent_from_and_not_received_into)
{
	char path[128];
	const struct guest_range range = { .guest = FAR * 2, .size = 0x1000, .user = USER + FAR * 2 };
	int fd;

	set_up();
	snprintf(path, sizeof(path), "%s/image", test_dir());
	fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK_INT(ftruncate(fd, 0x1000), 0);
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_INT(guest_mem_add(&mem, &range, fd, 0, NULL), 0);
	close(fd);
	describe(&desc[0], range.guest, 16, 0, 0);
	offer(0);
	CHECK_INT(pop(), 1);
	CHECK(!guest_mem_at_user(&mem, range.user, 16));
	describe(&desc[0], range.guest, 16, VRING_DESC_F_WRITE, 0);
	offer(0);
	check_broken("outside the guest's memory");
}

TEST(returned_chains_wrap_around_with_the_ring)
{
	set_up();
	CHECK_INT(virtqueue_start(&vq, &mem, 0xfffc, NULL), 0);
	avail->idx = 0xfffc;
	used->idx = 0xfffc;
	describe(&desc[2], DATA, 16, VRING_DESC_F_WRITE, 0);
	for (unsigned int i = 0; i < 10; i++) {
		offer(2);
		CHECK_INT(pop(), 1);
		virtqueue_push(&vq, chain.head, i);
		CHECK_INT(used->idx, (uint16_t)(0xfffc + i));
		virtqueue_publish(&vq);
		CHECK_INT(used->idx, (uint16_t)(0xfffd + i));
		CHECK_INT(used->ring[(0xfffc + i) % NUM].id, 2);
		CHECK_INT(used->ring[(0xfffc + i) % NUM].len, i);
	}
	tear_down();
}

TEST(chains_put_back_are_taken_again)
{
	set_up();
	for (uint16_t i = 0; i < 4; i++) {
		describe(&desc[i], DATA, 16, VRING_DESC_F_WRITE, 0);
		offer(i);
	}
	for (int i = 0; i < 4; i++)
		CHECK_INT(pop(), 1);
	virtqueue_unpop(&vq, 3);
	CHECK_INT(pop(), 1);
	CHECK_INT(chain.head, 1);
	tear_down();
}

/* Return one chain; was an interrupt asked for? */
static int give_one(void)
{
	describe(&desc[0], DATA, 16, VRING_DESC_F_WRITE, 0);
	offer(0);
	CHECK_INT(pop(), 1);
	virtqueue_push(&vq, chain.head, 1);
	return virtqueue_publish(&vq);
}

TEST(interrupts_follow_the_flag_or_the_event_index)
{
	set_up();
	CHECK_INT(virtqueue_publish(&vq), 0);
	CHECK_INT(give_one(), 1);
	avail->flags = VRING_AVAIL_F_NO_INTERRUPT;
	CHECK_INT(give_one(), 0);
	/* With event indexes the flag means nothing: the guest wants to hear when entry 3 is used, once. */
	vq.event_idx = 1;
	avail->ring[NUM] = 3;
	CHECK_INT(give_one(), 0);
	CHECK_INT(give_one(), 1);
	CHECK_INT(give_one(), 0);
	tear_down();
}

TEST(kicks_are_asked_for_by_flag_or_event_index)
{
	uint16_t *avail_event;

	set_up();
	avail_event = (uint16_t *)&used->ring[NUM];
	virtqueue_refuse_kicks(&vq);
	CHECK_INT(used->flags, VRING_USED_F_NO_NOTIFY);
	CHECK_INT(virtqueue_want_kicks(&vq), 0);
	CHECK_INT(used->flags, 0);
	vq.event_idx = 1;
	CHECK_INT(give_one(), 1);
	CHECK_INT(virtqueue_want_kicks(&vq), 0);
	CHECK_INT(*avail_event, 1);
	/* Something came while we asked: do not wait. */
	offer(0);
	CHECK_INT(virtqueue_want_kicks(&vq), 1);
	tear_down();
}

TEST(an_interrupt_is_one_write_and_never_blocks)
{
	uint64_t count;

	set_up();
	virtqueue_interrupt(&vq);
	vq.call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	virtqueue_interrupt(&vq);
	CHECK_INT(read(vq.call_fd, &count, sizeof(count)), sizeof(count));
	CHECK_INT(count, 1);
	count = UINT64_MAX - 1;
	CHECK_INT(write(vq.call_fd, &count, sizeof(count)), sizeof(count));
	virtqueue_interrupt(&vq);
	fd_close(&vq.call_fd);
	tear_down();
}

TEST(a_ring_must_lie_in_memory_whole_and_aligned)
{
	static const struct {
		uint64_t desc, avail, used;
		uint16_t num;
	} cases[] = {
		{ USER + LOW_SIZE - 16, USER + AVAIL, USER + USED, NUM }, /* one region must hold it */
		{ USER - 1, USER + AVAIL, USER + USED, NUM },
		{ USER + DESC, 0, USER + USED, NUM },
		{ USER + DESC, USER + LOW_SIZE - 4 - 2 * NUM, USER + USED, NUM },
		{ USER + DESC, USER + AVAIL, UINT64_MAX, NUM },
		{ USER + DESC + 8, USER + AVAIL, USER + USED, NUM },
		{ USER + DESC, USER + AVAIL + 1, USER + USED, NUM },
		{ USER + DESC, USER + AVAIL, USER + USED + 2, NUM },
		{ USER + DESC, USER + AVAIL, USER + USED, 0 },
		{ USER + DESC, USER + AVAIL, USER + USED, 6 },
		{ USER + DESC, USER + AVAIL, USER + USED, 2048 },
	};

	set_up();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		virtqueue_stop(&vq);
		vq.num = cases[i].num;
		vq.desc_user = cases[i].desc;
		vq.avail_user = cases[i].avail;
		vq.used_user = cases[i].used;
		CHECK(virtqueue_start(&vq, &mem, 0, NULL) < 0);
		CHECK_INT(pop(), 0);
	}
	tear_down();
}
