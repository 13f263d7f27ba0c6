/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot holds: its state file, registers, memory. All of it comes back from a file that anybody may edit. */
#include "examples/qemu/door.h"
#include "examples/qemu/program.h"
#include "examples/qemu/ram.h"
#include "examples/qemu/snapshot_state.h"
#include "examples/qemu/virtio_pci.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"

#define MIB (1u << 20)

static const struct snapshot_host host = { "10.0.2 pkg", "tcg", "max", "" };

/* A state as vm.snapshot makes it, with one of everything. */
static struct json *make_state(void)
{
	struct json *state = snapshot_state_new(&host), *memory = json_edit(state, "memory", JSON_OBJECT);
	struct json *device = json_new_object(), *block = json_new_object(), *dimm = json_new_object();
	struct buf bytes = { .data = (uint8_t *)"\xff\x00Q", .len = 3 };

	json_set_string(device, "id", "d");
	json_set_u64(device, "name", 3);
	json_set_u64(device, "slot", 9);
	json_append(json_edit(state, "devices", JSON_ARRAY), device);
	json_set_string(block, "name", "ram0");
	json_set_u64(block, "size", 4096);
	json_append(json_edit(memory, "blocks", JSON_ARRAY), block);
	json_set_u64(dimm, "size", 1);
	json_set_u64(dimm, "address", 2);
	json_set_u64(dimm, "slot", 0);
	json_append(json_edit(memory, "dimms", JSON_ARRAY), dimm);
	json_set_u64(memory, "base", 4096);
	json_set_u64(memory, "most", 8192);
	json_set_u64(state, "next_name", 4);
	json_set_u64(state, "next_device", 1);
	json_set_u64(state, "ranges", 0);
	CHECK_INT(snapshot_state_seal(state, &bytes), 0);
	return state;
}

/* Print it and read it again. The first line of a refusal, or "". */
static const char *parse(const struct json *state, size_t cut, struct json **ret)
{
	static char words[256];
	cleanup_buf struct buf text = BUF_INIT(MIB);
	struct fault fault = { 0 };

	CHECK_INT(json_print(state, 0, &text), 0);
	words[0] = '\0';
	if (snapshot_state_parse((const char *)text.data, text.len - cut, ret, &fault) < 0) {
		CHECK_INT(fault.status, 500);
		snprintf(words, sizeof(words), "%s", fault.lines[0]);
	}
	fault_clear(&fault);
	return words;
}

TEST(state_comes_back)
{
	cleanup_json struct json *state = make_state(), *again = NULL;
	struct fault fault = { 0 };
	cleanup_free char *bytes = NULL;
	size_t len;

	CHECK_STR(parse(state, 0, &again), "");
	CHECK_INT(snapshot_state_check_host(again, &host, &fault), 0);
	CHECK_INT(snapshot_state_bytes(again, &bytes, &len, &fault), 0);
	CHECK_INT(len, 3);
	CHECK(memcmp(bytes, "\xff\x00Q", 3) == 0);
	CHECK_INT(config_u64(snapshot_state_device(again, "d"), "slot"), 9);
	CHECK(!snapshot_state_device(again, "e"));
	CHECK_INT(config_u64(snapshot_state_block(again, "ram0"), "size"), 4096);
}

TEST(state_of_another_kind)
{
	cleanup_json struct json *state = make_state(), *again = NULL;
	cleanup_buf struct buf text = BUF_INIT(MIB);

	/* Cut anywhere, it is not taken for good. */
	CHECK_INT(json_print(state, 0, &text), 0);
	for (size_t cut = 1; cut <= text.len; cut++)
		CHECK(parse(state, cut, &again)[0]);
	json_set_u64(state, "version", 2);
	CHECK_CONTAINS(parse(state, 0, &again), "format 2, this cchv-qemu reads 1");
	json_set_string(state, "format", "other");
	CHECK_CONTAINS(parse(state, 0, &again), "not one of cchv-qemu");
	CHECK(!again);
}

TEST(state_that_makes_no_sense)
{
	static const char *const needed[] = {
		"qemu", "accelerator", "cpu", "host_cpu", "devices", "memory", "next_name", "next_device", "ranges",
		"digest",
	};
	static const struct {
		const char *key;
		uint64_t value;
	} wrong[] = { { "slot", 1 }, { "slot", 32 }, { "slot", UINT64_MAX }, { "name", 65536 } };

	for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
		cleanup_json struct json *state = make_state(), *again = NULL;

		CHECK_INT(json_remove(state, needed[i]), 1);
		CHECK_CONTAINS(parse(state, 0, &again), "make no sense");
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		cleanup_json struct json *state = make_state(), *again = NULL;
		struct json *device = json_edit_at(json_edit(state, "devices", JSON_ARRAY), 0);

		json_set_u64(device, wrong[i].key, wrong[i].value);
		CHECK_CONTAINS(parse(state, 0, &again), "make no sense");
	}
}

TEST(state_of_another_host)
{
	const struct snapshot_host others[] = {
		{ "10.0.3", "tcg", "max", "" }, { "10.0.2 pkg", "kvm", "max", "" },
		{ "10.0.2 pkg", "tcg", "host", "" }, { "10.0.2 pkg", "tcg", "max", "Intel 6" },
	};
	static const char *const words[] = {
		"made with QEMU '10.0.2 pkg', here is '10.0.3'", "accelerator 'tcg'", "processor model 'max'",
		"processor '', here is 'Intel 6'",
	};
	cleanup_json struct json *state = make_state();

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct fault fault = { 0 };

		CHECK(snapshot_state_check_host(state, &others[i], &fault) < 0);
		CHECK_CONTAINS(fault.lines[0], words[i]);
		fault_clear(&fault);
	}
}

TEST(state_that_is_damaged)
{
	cleanup_json struct json *state = make_state();
	struct fault fault = { 0 };
	char *bytes;
	size_t len;

	json_set(state, "state", json_new_bytes("\xff\x00R", 3));
	CHECK(snapshot_state_bytes(state, &bytes, &len, &fault) < 0);
	CHECK_CONTAINS(fault.lines[0], "damaged");
	json_remove(state, "state");
	CHECK(snapshot_state_bytes(state, &bytes, &len, &fault) < 0);
	fault_clear(&fault);
}

static struct virtio_pci registers(void)
{
	return (struct virtio_pci){
		.command = 0x406, .cache_line = 16, .latency = 1, .interrupt_line = 11,
		.bars = { 0, 0xfebf0000, 0, 0, 0xc000000c, 0x38 }, .msix_control = 0x8002, .vector_count = 2,
		.vectors = { { 0xfee00000, 1, 44, 0 }, { 0xfee00000, 2, 45, 1 } }, .reachable = 1, .status = 15,
		.features = 0x8000000120000001, .config_vector = 0xffff, .feature_select = 1,
		.driver_feature_select = 1,
		.queue_select = 2, .queue_count = 2,
		.queues = { { 128, 1, 1, 0x1000, 0x2000, UINT64_MAX }, { 64, 0xffff, 0, 0, 0, 0 } },
	};
}

TEST(registers_come_back)
{
	struct virtio_pci state = registers(), again;
	cleanup_json struct json *j = virtio_pci_to_json(&state);

	CHECK_INT(virtio_pci_parse(j, &again), 0);
	CHECK_INT(again.features, state.features);
	CHECK(memcmp(again.bars, state.bars, sizeof(state.bars)) == 0);
	CHECK(memcmp(again.vectors, state.vectors, sizeof(state.vectors)) == 0);
	CHECK(memcmp(again.queues, state.queues, sizeof(state.queues)) == 0);
	CHECK_INT(again.command, 0x406);
	CHECK_INT(again.queue_select, 2);
	CHECK_INT(again.config_vector, 0xffff);
	CHECK(again.reachable);
}

TEST(registers_that_make_no_sense)
{
	static const char *const keys[] = {
		"command", "cache_line", "latency", "interrupt_line", "bars", "msix_control", "status", "features",
		"config_vector", "selectors",
	};
	struct virtio_pci state = registers();

	CHECK(virtio_pci_parse(NULL, &state) < 0);
	state = registers();
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		cleanup_json struct json *j = virtio_pci_to_json(&state);
		struct virtio_pci again;

		CHECK_INT(json_remove(j, keys[i]), 1);
		CHECK(virtio_pci_parse(j, &again) < 0);
		json_set_u64(j, keys[i], UINT64_MAX);
		/* Any 64 bits are features. */
		CHECK_INT(virtio_pci_parse(j, &again) < 0, strcmp(keys[i], "features") != 0);
	}
	for (size_t i = 0; i < 2; i++) {
		cleanup_json struct json *j = virtio_pci_to_json(&state);
		struct json *list = json_edit(j, i ? "queues" : "vectors", JSON_ARRAY);
		struct virtio_pci again;

		for (int n = 0; n < 20; n++)
			json_append(list, json_copy(json_at(list, 0)));
		CHECK(virtio_pci_parse(j, &again) < 0);
	}
}

TEST(answers_of_the_door)
{
	uint64_t value = 0;

	CHECK_INT(door_parse_answer("OK", &value), 0);
	CHECK_INT(door_parse_answer("OK 0x00ff", &value), 1);
	CHECK_INT(value, 255);
	CHECK_INT(door_parse_answer("OK 0xffffffffffffffff", &value), 1);
	CHECK_INT(value, UINT64_MAX);
	CHECK_INT(door_parse_answer("OK 0x", &value), -1);
	CHECK_INT(door_parse_answer("OK 0x1ffffffffffffffff", &value), -1);
	CHECK_INT(door_parse_answer("OK 0x12 ", &value), -1);
	CHECK_INT(door_parse_answer("FAIL Unknown command", &value), -1);
	CHECK_INT(door_parse_answer("", &value), -1);
}

static char byte_at(int fd, off_t offset)
{
	char c = '?';

	CHECK_INT(pread(fd, &c, 1, offset), 1);
	return c;
}

static uint64_t bytes_on_disk(int fd)
{
	struct stat st;

	CHECK_INT(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static int open_file(const char *name, char *path, size_t size)
{
	int fd;

	snprintf(path, size, "%s/%s", test_dir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

TEST(memory_goes_into_a_file_and_back)
{
	struct ram ram = { 0 }, other = { 0 };
	struct ram_block *block, *again;
	struct fault fault = { 0 };
	char path[256];
	cleanup_close int fd = open_file("ranges", path, sizeof(path));
	uint64_t end = 1;

	CHECK_INT(ram_add(&ram, "ram0", 64 * MIB, NULL, &block, &fault), 0);
	CHECK_INT(ram_end(block, &end), 0);
	CHECK_INT(end, 0);
	CHECK_INT(pwrite(block->fd, "a", 1, 5), 1);
	CHECK_INT(pwrite(block->fd, "b", 1, 40 * MIB), 1);
	CHECK_INT(ram_end(block, &end), 0);
	CHECK_INT(end, 40 * MIB + 4096);
	CHECK_INT(ram_save(block, fd, MIB, end), 0);
	CHECK_INT(byte_at(fd, MIB + 5), 'a');
	CHECK(bytes_on_disk(fd) < 2 * MIB);
	CHECK_INT(ram_add(&other, "ram0", 64 * MIB, NULL, &again, &fault), 0);
	CHECK_INT(ftruncate(fd, (off_t)(MIB + end)), 0);
	CHECK_INT(ram_load(again, fd, MIB, end), 0);
	CHECK_INT(byte_at(again->fd, 5), 'a');
	CHECK_INT(byte_at(again->fd, 40 * MIB), 'b');
	CHECK_INT(byte_at(again->fd, 41 * MIB), 0);
	CHECK(bytes_on_disk(again->fd) < MIB);
	/* Cut short. */
	CHECK_INT(ftruncate(fd, (off_t)(MIB + end - 1)), 0);
	CHECK_INT(ram_load(again, fd, MIB, end), -1);
	CHECK_INT(errno, ENODATA);
	CHECK(ram_find(&ram, "ram0") == block);
	CHECK(!ram_find(&ram, "ram1"));
	ram_free(&ram);
	ram_free(&other);
}

/* A file of 16 MiB, and memory that is to be a copy of it. */
static struct ram_block *copy_zone(char *path, size_t size, int *ret_fd, struct ram *ram, struct fault *fault)
{
	struct ram_block *block;

	*ret_fd = open_file("zone", path, size);
	CHECK_INT(ftruncate(*ret_fd, 16 * MIB), 0);
	CHECK_INT(pwrite(*ret_fd, "x", 1, 9 * MIB), 1);
	CHECK_INT(ram_add_copy(ram, "ram0", 16 * MIB, path, NULL, &block, fault), 0);
	return block;
}

TEST(private_copy_of_a_file)
{
	struct ram ram = { 0 };
	struct fault fault = { 0 };
	cleanup_close int fd = -1;
	char path[256];
	struct ram_block *block = copy_zone(path, sizeof(path), &fd, &ram, &fault);

	CHECK_INT(ram_fill(&ram, &fault), 0);
	CHECK_INT(block->source, -1);
	CHECK_INT(byte_at(block->fd, 9 * MIB), 'x');
	CHECK(bytes_on_disk(block->fd) < MIB);
	CHECK_INT(pwrite(block->fd, "y", 1, 9 * MIB), 1);
	CHECK_INT(byte_at(fd, 9 * MIB), 'x');
	CHECK(ram_add_copy(&ram, "ram1", 8 * MIB, path, NULL, &block, &fault) < 0);
	CHECK_CONTAINS(fault.lines[0], "has 16777216 bytes, not 8388608");
	CHECK(ram_add_copy(&ram, "ram1", 8 * MIB, "/nonexistent", NULL, &block, &fault) < 0);
	CHECK_CONTAINS(fault.lines[0], "os error 2");
	CHECK(ram.blocks && !ram.blocks->next);
	fault_clear(&fault);
	ram_free(&ram);
}

TEST(file_that_shrinks_under_its_copy)
{
	struct ram ram = { 0 };
	struct fault fault = { 0 };
	cleanup_close int fd = -1;
	char path[256];
	struct ram_block *block = copy_zone(path, sizeof(path), &fd, &ram, &fault);

	/* Where blocks are shared it has its own already. */
	if (block->source >= 0) {
		CHECK_INT(ftruncate(fd, 8 * MIB), 0);
		CHECK(ram_fill(&ram, &fault) < 0);
		CHECK_CONTAINS(fault.lines[1], "guest memory 'ram0'");
	}
	fault_clear(&fault);
	ram_free(&ram);
}

TEST(memory_into_a_full_disk)
{
	struct ram ram = { 0 };
	struct fault fault = { 0 };
	struct ram_block *block;
	cleanup_close int full = open("/dev/full", O_RDWR | O_CLOEXEC);

	CHECK_INT(ram_add(&ram, "ram0", MIB, NULL, &block, &fault), 0);
	CHECK_INT(pwrite(block->fd, "a", 1, 0), 1);
	CHECK_INT(ram_save(block, full, 0, 4096), -1);
	CHECK_INT(errno, ENOSPC);
	ram_free(&ram);
}

TEST(processors)
{
	static const char info[] = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
	                           "model name\t: Xeon\nflags\t\t: fpu vmx\n\nprocessor\t: 1\nvendor_id\t: Other\n";
	static const char less[] = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
	                           "model name\t: Xeon\nflags\t\t: fpu\n";
	char one[160], two[160];

	program_describe_cpu(info, one, sizeof(one));
	CHECK_CONTAINS(one, "GenuineIntel 6 85 Xeon ");
	program_describe_cpu(less, two, sizeof(two));
	CHECK_CONTAINS(two, "GenuineIntel 6 85 Xeon ");
	CHECK(strcmp(one, two) != 0);
	program_describe_cpu("", two, sizeof(two));
	program_describe_cpu(info, two, 8);
	CHECK_INT(strlen(two), 7);
}
