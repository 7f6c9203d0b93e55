/* Preloaded into a guest's kernel on processors whose register state is larger than that kernel
 * knows.
 *
 * User Mode Linux up to 6.12 keeps 2696 bytes of extended register state for each thread, and sets
 * it with PTRACE_SETREGSET. Linux takes the whole state or nothing, and with AMX the whole is
 * 11008 bytes: the guest's first process would die of EFAULT. What is beyond the 2696 bytes belongs
 * to AMX, which no process has before it asked for it, so that it is always in its initial state:
 * zeros with no bit in the header. They are added here. (The system takes no more than it needs of
 * a longer state.)
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Of a kernel there is one thread that does this. */
static _Alignas(64) char whole[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
		const struct iovec *part = data;
		if (part->iov_len <= sizeof(whole)) {
			/* Always of the same length, so the zeros behind it stay. */
			memcpy(whole, part->iov_base, part->iov_len);
			struct iovec all = { .iov_base = whole, .iov_len = sizeof(whole) };
			return syscall(SYS_ptrace, request, pid, address, &all);
		}
	}
	/* The system stores what these read; the library's function returns it. */
	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
		long word = 0;
		if (syscall(SYS_ptrace, request, pid, address, &word) < 0)
			return -1;
		errno = 0;
		return word;
	}
	return syscall(SYS_ptrace, request, pid, address, data);
}
