/* SPDX-License-Identifier: Apache-2.0 */
#include "template_key.h"
#include "base/buf.h"
#include "test.h"
#include "vm_config.h"
#include "vmm/choose.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

static char vmm[200], kernel[200], initramfs[200];

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static struct template_parts parts(void)
{
	snprintf(vmm, sizeof(vmm), "%s/cloud-hypervisor", test_dir());
	snprintf(kernel, sizeof(kernel), "%s/vmlinux", test_dir());
	snprintf(initramfs, sizeof(initramfs), "%s/initramfs.img", test_dir());
	write_file(vmm, "vmm");
	write_file(kernel, "kernel");
	write_file(initramfs, "initramfs");
	return (struct template_parts){ .vmm = vmm, .vmm_kind = VMM_CLOUD_HYPERVISOR, .kernel = kernel,
		                        .initramfs = initramfs };
}

TEST(a_key_is_the_same_each_time)
{
	struct template_parts p = parts();
	char one[SHA256_HEX_SIZE], two[SHA256_HEX_SIZE];

	CHECK_INT(template_key(&p, one, NULL), 0);
	CHECK_INT(template_key(&p, two, NULL), 0);
	CHECK(sha256_hex_is_valid(one));
	CHECK_STR(two, one);
}

/* Also a file of the same size and with the same time as the one that it replaced. */
TEST(each_part_makes_another_key)
{
	struct template_parts p = parts();
	char first[SHA256_HEX_SIZE], last[SHA256_HEX_SIZE], now[SHA256_HEX_SIZE];
	const char *const files[] = { vmm, kernel, initramfs };

	CHECK_INT(template_key(&p, first, NULL), 0);
	memcpy(last, first, sizeof(last));
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char other[220];
		struct timespec times[2];
		struct stat st;

		CHECK_INT(stat(files[i], &st), 0);
		times[0] = times[1] = st.st_mtim;
		snprintf(other, sizeof(other), "%s.new", files[i]);
		write_file(other, "another");
		CHECK_INT(truncate(other, st.st_size), 0);
		CHECK_INT(utimensat(AT_FDCWD, other, times, 0), 0);
		CHECK_INT(rename(other, files[i]), 0);
		CHECK_INT(template_key(&p, now, NULL), 0);
		CHECK(strcmp(now, last) != 0 && strcmp(now, first) != 0);
		memcpy(last, now, sizeof(last));
	}
}

TEST(a_missing_part_is_named)
{
	struct template_parts p = parts();
	char key[SHA256_HEX_SIZE] = "";
	cchv_error *err = NULL;

	CHECK_INT(unlink(initramfs), 0);
	CHECK_INT(template_key(&p, key, &err), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(cchv_error_message(err), initramfs);
	CHECK_STR(key, "");
	cchv_error_free(err);
}

#define TWO_CPUS(mhz, id)                                                                                           \
	"processor\t: " id "\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\ncpu MHz\t\t: " mhz "\napicid\t\t: " id   \
	"\ncpu cores\t: 2\nflags\t\t: fpu svm npt\nbogomips\t: 5000.00\n\nprocessor\t: 9\nflags\t\t: other\n\n"

TEST(a_processor_is_its_kind)
{
	struct buf one = BUF_INIT(4096), two = BUF_INIT(4096);

	CHECK_INT(template_describe_cpu(TWO_CPUS("2495.310", "0"), &one), 0);
	CHECK_INT(template_describe_cpu(TWO_CPUS("800.000", "1"), &two), 0);
	CHECK_STR(buf_string(&one), "vendor_id\t: AuthenticAMD\ncpu family\t: 23\nflags\t\t: fpu svm npt\n");
	CHECK_STR(buf_string(&two), buf_string(&one));
	buf_free(&one);
	buf_free(&two);
}

TEST(a_processor_without_lines)
{
	struct buf out = BUF_INIT(4096);

	CHECK_INT(template_describe_cpu("", &out), 0);
	CHECK_INT(template_describe_cpu("\nflags: x\n", &out), 0);
	CHECK_INT(out.len, 0);
	CHECK_INT(template_describe_cpu("flags", &out), 0);
	CHECK_STR(buf_string(&out), "flags\n");
	buf_free(&out);
}

TEST(what_a_template_can_be)
{
	cchv_vm_config *config = NULL;

	CHECK_INT(cchv_vm_config_new(&config), 0);
	CHECK(!template_why_not(config));
	CHECK_INT(cchv_vm_config_set_vcpus(config, 1, TEMPLATE_MAX_VCPUS), 0);
	CHECK(!template_why_not(config));
	CHECK_INT(cchv_vm_config_set_vcpus(config, 1, TEMPLATE_MAX_VCPUS + 1), 0);
	CHECK_CONTAINS(template_why_not(config), "vCPUs");
	CHECK_INT(cchv_vm_config_set_vcpus(config, 1, 1), 0);
	/* More than this host has, as the size to boot with or as the maximum. */
	CHECK_INT(cchv_vm_config_set_memory(config, 1ULL << 45), 0);
	CHECK_CONTAINS(template_why_not(config), "memory");
	CHECK_INT(cchv_vm_config_set_memory(config, 64 << 20), 0);
	CHECK(!template_why_not(config));
	CHECK_INT(cchv_vm_config_set_memory_max(config, 1ULL << 45), 0);
	CHECK_CONTAINS(template_why_not(config), "memory");
	cchv_vm_config_free(config);
}

TEST(out_of_memory)
{
	struct template_parts p = parts();
	char key[SHA256_HEX_SIZE];
	uint64_t before = mem_count(), total;

	CHECK_INT(template_key(&p, key, NULL), 0);
	total = mem_count() - before;
	CHECK(total > 20);
	for (uint64_t n = 1; n <= total; n++) {
		cchv_error *err = NULL;
		int r;

		mem_fail_from(n);
		r = template_key(&p, key, &err);
		mem_fail_from(0);
		CHECK_INT(r, CCHV_ERR_NOMEM);
		cchv_error_free(err);
	}
}
