/* SPDX-License-Identifier: Apache-2.0 */
#include "guest_json.h"

#include "guest/seccomp_profile.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

static void install(const char *text)
{
	struct json *j = parse(text);
	struct words ignored = { NULL, 0 };
	struct seccomp_filter filter;
	cleanup_err cchv_error *err = NULL;

	if (profile_compile(j, &filter, &ignored, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", cchv_error_message(err));
	CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_INT(profile_install(&filter), 0);
	profile_free(&filter);
	words_free(&ignored);
	json_free(j);
}

static void fails(const char *text, int code, const char *part)
{
	struct json *j = parse(text);
	struct words ignored = { NULL, 0 };
	struct seccomp_filter filter;
	cleanup_err cchv_error *err = NULL;

	CHECK_INT(profile_compile(j, &filter, &ignored, &err), code);
	CHECK_CONTAINS(cchv_error_message(err), part);
	words_free(&ignored);
	json_free(j);
}

TEST(errno_of_a_call)
{
	struct utsname name;

	install("{'defaultAction':'SCMP_ACT_ALLOW','architectures':['SCMP_ARCH_X86_64',"
	        "'SCMP_ARCH_X86','SCMP_ARCH_X32'],"
	        "'syscalls':[{'names':['uname','no_such_call'],'action':'SCMP_ACT_ERRNO','errnoRet':38},"
	        "{'names':['getsid'],'action':'SCMP_ACT_ERRNO'}]}");
	CHECK_INT(syscall(SYS_uname, &name), -1);
	CHECK_INT(errno, ENOSYS);
	CHECK_INT(syscall(SYS_getsid, 0), -1);
	CHECK_INT(errno, EPERM);
}

TEST(arguments)
{
	install("{'defaultAction':'SCMP_ACT_ALLOW','syscalls':[{'names':['socket'],"
	        "'action':'SCMP_ACT_ERRNO','errnoRet':1,"
	        "'args':[{'index':0,'value':16,'op':'SCMP_CMP_EQ'}]},"
	        "{'names':['personality'],'action':'SCMP_ACT_ERRNO','errnoRet':95,"
	        "'args':[{'index':0,'value':8,'op':'SCMP_CMP_EQ'},{'index':0,'value':4,'op':'SCMP_CMP_EQ'}]},"
	        "{'names':['fcntl'],'action':'SCMP_ACT_ERRNO','errnoRet':71,"
	        "'args':[{'index':2,'value':4080,'valueTwo':240,'op':'SCMP_CMP_MASKED_EQ'}]}]}");
	CHECK_INT(syscall(SYS_socket, 16, SOCK_RAW | SOCK_CLOEXEC, 0), -1);
	CHECK_INT(errno, EPERM);
	CHECK_INT(syscall(SYS_personality, 8), -1);
	CHECK_INT(errno, EOPNOTSUPP);
	CHECK_INT(syscall(SYS_personality, 4), -1);
	CHECK_INT(errno, EOPNOTSUPP);
	CHECK(syscall(SYS_personality, 0xffffffff) >= 0);
	CHECK_INT(syscall(SYS_fcntl, 1, 1234567, 0x1f3), -1);
	CHECK(errno != EPROTO);
	CHECK_INT(syscall(SYS_fcntl, 1, 1234567, 0x0f3), -1);
	CHECK_INT(errno, EPROTO);
}

/* The runtime of a sanitizer makes calls of its own, at the end too: it does not live under such a filter. */
#ifndef __SANITIZE_ADDRESS__
TEST(calls_newer_than_the_profile_look_absent)
{
	struct utsname name;

	/* openat2 (437) is the newest the profile knows; uname is older and refused by default. */
	install("{'defaultAction':'SCMP_ACT_ERRNO','syscalls':[{'names':['openat2','exit',"
	        "'exit_group','write','read',"
	        "'rt_sigprocmask','getdents64','openat','newfstatat','close','unlinkat',"
	        "'rmdir','fcntl','munmap','mmap',"
	        "'brk','fstat','futex','lseek'],'action':'SCMP_ACT_ALLOW'}]}");
	CHECK_INT(syscall(SYS_uname, &name), -1);
	CHECK_INT(errno, EPERM);
	CHECK_INT(syscall(500), -1);
	CHECK_INT(errno, ENOSYS);
}

TEST(default_errno)
{
	struct utsname name;

	install("{'defaultAction':'SCMP_ACT_ERRNO','defaultErrnoRet':71,"
	        "'syscalls':[{'names':['openat2','exit',"
	        "'exit_group','write','rt_sigprocmask','getdents64','openat','newfstatat',"
	        "'close','unlinkat','rmdir',"
	        "'munmap','mmap','brk','fstat','futex'],'action':'SCMP_ACT_ALLOW'}]}");
	CHECK_INT(syscall(SYS_uname, &name), -1);
	CHECK_INT(errno, EPROTO);
}
#endif

TEST(kill_and_trap)
{
	static const char *const actions[] = { "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL",
		                               "SCMP_ACT_KILL_THREAD", "SCMP_ACT_TRAP" };

	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		char text[256];
		int status;
		pid_t pid;

		snprintf(text, sizeof(text),
		         "{'defaultAction':'SCMP_ACT_ALLOW','syscalls':[{'names':['getsid'],"
		         "'action':'%s'}]}",
		         actions[i]);
		pid = fork();
		if (pid == 0) {
			install(text);
			syscall(SYS_getsid, 0);
			_exit(0);
		}
		CHECK_INT(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
		CHECK_INT(WTERMSIG(status), 31);
	}
}

TEST(what_is_wrong_is_named)
{
	fails("{}", CCHV_ERR_INVALID, "linux.seccomp.defaultAction: required");
	fails("{'defaultAction':'SCMP_ACT_MAYBE'}", CCHV_ERR_INVALID, "SCMP_ACT_MAYBE");
	fails("{'defaultAction':'SCMP_ACT_NOTIFY'}", CCHV_ERR_UNSUPPORTED, "linux.seccomp.defaultAction");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','syscalls':[{'names':['read'],'action':'SCMP_ACT_NOTIFY'}]}",
	      CCHV_ERR_UNSUPPORTED, "linux.seccomp.syscalls[0].action");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','defaultErrnoRet':5}", CCHV_ERR_INVALID, "takes no errno");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','architectures':['SCMP_ARCH_PDP11']}", CCHV_ERR_INVALID,
	      "PDP11");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','flags':['X']}", CCHV_ERR_INVALID, "linux.seccomp.flags");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','syscalls':[{'names':[],'action':'SCMP_ACT_LOG'}]}",
	      CCHV_ERR_INVALID, "linux.seccomp.syscalls[0].names: empty");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','syscalls':[null]}", CCHV_ERR_INVALID,
	      "linux.seccomp.syscalls[0]");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','syscalls':[{'names':['read'],"
	      "'action':'SCMP_ACT_LOG','args':"
	      "[{'index':6,'value':0,'op':'SCMP_CMP_EQ'}]}]}",
	      CCHV_ERR_INVALID, "linux.seccomp.syscalls[0].args[0].index");
	fails("{'defaultAction':'SCMP_ACT_ALLOW','syscalls':[{'names':['read'],"
	      "'action':'SCMP_ACT_LOG','args':"
	      "[{'index':0,'value':0,'op':'LIKE'}]}]}",
	      CCHV_ERR_INVALID, "LIKE");
}

TEST(flags_and_listener)
{
	struct json *j = parse(
		"{'defaultAction':'SCMP_ACT_ALLOW','flags':['SECCOMP_FILTER_FLAG_LOG',"
		"'SECCOMP_FILTER_FLAG_TSYNC','SECCOMP_FILTER_FLAG_SPEC_ALLOW'],'listenerPath':'/x',"
		"'listenerMetadata':'y'}");
	struct words ignored = { NULL, 0 };
	struct seccomp_filter filter;

	CHECK_INT(profile_compile(j, &filter, &ignored, NULL), 0);
	CHECK_INT(filter.flags, 2 | 4);
	CHECK_INT(ignored.count, 2);
	CHECK(words_has(&ignored, "linux.seccomp.listenerPath"));
	CHECK(words_has(&ignored, "linux.seccomp.listenerMetadata"));
	profile_free(&filter);
	words_free(&ignored);
	json_free(j);
}

/* What no x86 kernel runs changes nothing, and is no reason for a line; what an x86 kernel runs does. */
TEST(architectures_of_others_are_passed_over)
{
	static const char *const lists[] = {
		"", "'SCMP_ARCH_X86_64'",
		"'SCMP_ARCH_AARCH64','SCMP_ARCH_ARM','SCMP_ARCH_MIPS64N32','SCMP_ARCH_S390X',"
		"'SCMP_ARCH_PPC64LE','SCMP_ARCH_RISCV64'",
		"'SCMP_ARCH_X86'"
	};
	struct seccomp_filter filters[ARRAY_LEN(lists)];

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct words ignored = { NULL, 0 };
		char text[512];
		struct json *j;

		snprintf(text, sizeof(text),
		         "{'defaultAction':'SCMP_ACT_ALLOW','architectures':[%s],'syscalls':[{'names':"
		         "['uname'],'action':'SCMP_ACT_ERRNO'}]}",
		         lists[i]);
		j = parse(text);
		CHECK_INT(profile_compile(j, &filters[i], &ignored, NULL), 0);
		CHECK_INT(ignored.count, 0);
		json_free(j);
	}
	for (size_t i = 1; i < 3; i++) {
		CHECK_INT(filters[i].length, filters[0].length);
		CHECK(memcmp(filters[i].code, filters[0].code, filters[0].length * sizeof(*filters[0].code)) == 0);
	}
	CHECK(filters[3].length > filters[0].length);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		profile_free(&filters[i]);
}

TEST(no_vsock_for_containers)
{
	int fd;

	CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_INT(profile_install_own(), 0);
	CHECK_INT(syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0), -1);
	CHECK_INT(errno, EAFNOSUPPORT);
	/* The kernel looks at 32 bits only. */
	CHECK_INT(syscall(SYS_socket, 0x100000028ULL, SOCK_STREAM, 0), -1);
	CHECK_INT(errno, EAFNOSUPPORT);
	fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(syscall(SYS_getppid), getppid());
}

#ifdef __x86_64__
static long int80(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("int $0x80"
	                 : "=a"(result)
	                 : "a"(number), "b"(a), "c"(b), "d"(c)
	                 : "memory", "r8", "r9", "r10", "r11");
	return result;
}

TEST(no_vsock_by_the_32_bit_door)
{
	CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (int80(20, 0, 0, 0) != getpid())
		return; /* a kernel without the door */
	CHECK_INT(profile_install_own(), 0);
	CHECK_INT(int80(359, AF_VSOCK, SOCK_STREAM, 0), -EAFNOSUPPORT);
	CHECK_INT(int80(102, 1, 0, 0), -ENOSYS);
	CHECK_INT(int80(102, 2, 0, 0), -EFAULT);
	CHECK_INT(int80(20, 0, 0, 0), getpid());
}
#endif
