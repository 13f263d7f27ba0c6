/* SPDX-License-Identifier: Apache-2.0 */
/* The small rooms of cchv-qemu: faults, options, slots, versions, counters, quoting. */
#include "examples/qemu/console.h"
#include "examples/qemu/fault.h"
#include "examples/qemu/options.h"
#include "examples/qemu/pci_slots.h"
#include "examples/qemu/program.h"
#include "examples/qemu/tap.h"
#include "test.h"

TEST(fault_chain)
{
	struct fault fault = { 0 };
	cleanup_buf struct buf out = BUF_INIT(4096);
	char text[64];

	CHECK(fault_os(&fault, ENOENT) < 0);
	fault_wrap(&fault, "disk '%s'", "a\"b");
	fault_wrap(&fault, "outer");
	CHECK_INT(fault.status, 500);
	CHECK_INT(fault_print(&fault, &out), 0);
	CHECK_STR(buf_string(&out), "[\"outer\",\"disk 'a\\\"b'\",\"No such file or directory (os error 2)\"]");
	CHECK_STR(fault_text(&fault, text, 16), "outer: disk 'a\"");
	for (int i = 0; i < 20; i++)
		fault_wrap(&fault, "more");
	CHECK_INT(fault.count, FAULT_LINES);
	CHECK_STR(fault.lines[0], "No such file or directory (os error 2)");
	fault_set(&fault, 404, "anew");
	CHECK_INT(fault.count, 1);
	CHECK_INT(fault.status, 404);
	fault_clear(&fault);
}

TEST(fault_without_memory)
{
	struct fault fault = { 0 };

	mem_fail_from(1);
	CHECK(fault_set(&fault, 404, "x") < 0);
	mem_fail_from(0);
	CHECK_INT(fault.status, 404);
	fault_clear(&fault);
}

static int parse(struct options *options, char *problem, const char *const *words)
{
	int argc = 0;

	while (words[argc])
		argc++;
	return options_parse(options, argc, (char *const *)words, problem, 256);
}

#define WORDS(...) (const char *const[]){ "cchv-qemu", __VA_ARGS__, NULL }

TEST(options)
{
	struct options o;
	char problem[256];

	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "fd=7", "--event-monitor=fd=8", "--log-file", "l", "-v",
	                                   "-vv")), 0);
	CHECK_INT(o.api_socket_fd, 7);
	CHECK_INT(o.event_fd, 8);
	CHECK_STR(o.log_file, "l");
	CHECK_INT(o.verbosity, 3);
	CHECK_INT(o.seccomp, 1);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "path=/a", "--event-monitor", "/e", "--seccomp", "false",
	                                   "--no-shutdown")), 0);
	CHECK_STR(o.api_socket_path, "/a");
	CHECK_STR(o.event_path, "/e");
	CHECK_INT(o.seccomp, 0);
	CHECK_INT(o.no_shutdown, 1);
	CHECK_INT(parse(&o, problem, WORDS("-V")), 0);
	CHECK_INT(o.version, 1);
}

TEST(wrong_options)
{
	struct options o;
	char problem[256];

	CHECK_INT(parse(&o, problem, (const char *const[]){ "cchv-qemu", NULL }), 2);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket")), 2);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "fd=-1")), 1);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "fd=1x")), 1);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "path=")), 1);
	CHECK_INT(parse(&o, problem, WORDS("--api-socketx", "/a")), 2);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "/a", "--seccomp", "maybe")), 2);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "/a", "--kernel", "/k")), 2);
	CHECK_CONTAINS(problem, "--kernel");
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "/a", "-vx")), 2);
	CHECK_INT(parse(&o, problem, WORDS("--api-socket", "/a", "-")), 2);
}

TEST(slots)
{
	struct pci_slots slots;
	struct fault fault = { 0 };
	int slot, count = 0;

	pci_slots_init(&slots);
	pci_slots_keep(&slots, 2);
	CHECK_INT(pci_slots_find(&slots, &slot, &fault), 0);
	CHECK_INT(slot, 3);
	CHECK_INT(pci_slots_take(&slots, 2, &fault), 0);
	CHECK(pci_slots_take(&slots, 2, &fault) < 0);
	CHECK(pci_slots_take(&slots, 1, &fault) < 0);
	CHECK(pci_slots_take(&slots, 32, &fault) < 0);
	pci_slots_release(&slots, 2);
	pci_slots_release(&slots, 0);
	CHECK_INT(pci_slots_find(&slots, &slot, &fault), 0);
	CHECK_INT(slot, 2);
	while (pci_slots_find(&slots, &slot, &fault) == 0)
		count++;
	CHECK_INT(count, 28);
	CHECK_STR(pci_bdf_of(31).text, "0000:00:1f.0");
	fault_clear(&fault);
}

TEST(versions)
{
	CHECK_INT(program_parse_version("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"), 10);
	CHECK_INT(program_parse_version("QEMU emulator version 7.2.17\n"), 7);
	CHECK_INT(program_parse_version("QEMU emulator version x"), -1);
	CHECK_INT(program_parse_version(""), -1);
}

TEST(cpu_flags)
{
	CHECK(program_cpu_virtualizes("processor\t: 0\nflags\t\t: fpu vme svm\n"));
	CHECK(program_cpu_virtualizes("processor\t: 0\nflags\t\t: fpu vmx lm\nbugs\t: x\n"));
	CHECK(!program_cpu_virtualizes("processor\t: 0\nflags\t\t: fpu svm_lock lm\nvmx flags\t: vnmi\n"));
	CHECK(!program_cpu_virtualizes("processor\t: 0\nflags\t\t: fpu vme\nnote: svm\n"));
	CHECK(!program_cpu_virtualizes(""));
}

TEST(tap_counters)
{
	const char *text = "Inter-|   Receive                                                |  Transmit\n"
	                   " face |bytes    packets errs drop fifo frame compressed multicast|bytes\n"
	                   "    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n"
	                   "  tap0: 100 10 0 0 0 0 0 0 18446744073709551615 20 0 0 0 0 0 0\n"
	                   "tap01:5 6 0 0 0 0 0 0 7 8 0 0 0 0 0 0\n";
	struct tap_counters c;

	CHECK_INT(tap_parse_counters(text, "tap0", &c), 1);
	/* The host's receipts are the guest's sendings. */
	CHECK(c.tx_bytes == 100 && c.tx_frames == 10 && c.rx_bytes == UINT64_MAX && c.rx_frames == 20);
	CHECK_INT(tap_parse_counters(text, "tap01", &c), 1);
	CHECK(c.rx_bytes == 7);
	CHECK_INT(tap_parse_counters(text, "tap", &c), 0);
	CHECK_INT(tap_parse_counters("tap0: 1 2", "tap0", &c), 0);
	CHECK_INT(tap_parse_counters("", "tap0", &c), 0);
}

TEST(quoting)
{
	cleanup_free char *text = console_quote("a,b,,c");

	CHECK_STR(text, "a,,b,,,,c");
}
