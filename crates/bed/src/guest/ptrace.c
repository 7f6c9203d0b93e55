/* Preloaded into a guest's kernel: its `waitpid`, which keeps signals of job control from the kernel, and
 * its `ptrace`, with two differences for the extended register state of a guest's programs, which User Mode
 * Linux reads and sets around each of their system calls.
 *
 * Setting what is there already is left out. Linux allocates and frees the state's memory each time,
 * a tenth of the time of a guest. What was read or set last is there until the program runs again.
 *
 * A state that is larger than the guest's kernel knows is set whole. User Mode Linux up to 6.12 keeps
 * 2696 bytes for each thread, and Linux takes the whole state or nothing: with AMX the whole is 11008
 * bytes, and the guest's first process would die of EFAULT. What is beyond the 2696 bytes belongs to
 * AMX, which no process has before it asked for it, so that it is always in its initial state: zeros
 * with no bit in the header. They are added here. (The system takes no more than it needs of a longer
 * state.)
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of a kernel there is one thread that does this. */
static _Alignas(64) char whole[1 << 16];

/* States of stopped processes, as read or set last. A process that is not stopped has none, nor has one
 * whose place another has taken. */
static struct known {
	pid_t pid;
	size_t bytes;
	_Alignas(64) char state[4096];
} all_known[64];

static struct known *place_of(pid_t pid)
{
	return &all_known[(unsigned int)pid % (sizeof(all_known) / sizeof(all_known[0]))];
}

static void remember(pid_t pid, const struct iovec *part)
{
	struct known *known = place_of(pid);
	known->pid = 0;
	if (part->iov_len > sizeof(known->state))
		return;
	memcpy(known->state, part->iov_base, part->iov_len);
	known->bytes = part->iov_len;
	known->pid = pid;
}

static long set_state(pid_t pid, void *type, const struct iovec *part)
{
	struct known *known = place_of(pid);
	if (known->pid == pid && part->iov_len >= known->bytes &&
	    memcmp(known->state, part->iov_base, known->bytes) == 0)
		return 0;
	known->pid = 0;
	if (part->iov_len > sizeof(whole))
		return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, type, part);
	/* Always of the same length, so the zeros behind it stay. */
	memcpy(whole, part->iov_base, part->iov_len);
	struct iovec all = { .iov_base = whole, .iov_len = sizeof(whole) };
	long result = syscall(SYS_ptrace, PTRACE_SETREGSET, pid, type, &all);
	if (result == 0)
		remember(pid, part);
	return result;
}

/* Process that was let go on last, and the request that did. The kernel waits for that one only. */
static struct { pid_t pid; long request; } running;

/* Job control, such as that of a shell or of a batch system that suspends a job, stops all processes of a
 * guest. Of its programs' processes the kernel knows no such stop, and ends with SIGABRT. They go on when the
 * kernel does, by the same request. A process that has not run yet stops itself for the kernel.
 */
pid_t waitpid(pid_t pid, int *status, int options)
{
	for (;;) {
		int found = 0;
		pid_t changed = (pid_t)syscall(SYS_wait4, pid, &found, options, NULL);
		if (changed > 0 && changed == running.pid && WIFSTOPPED(found)) {
			switch (WSTOPSIG(found)) {
			case SIGSTOP: case SIGTSTP: case SIGTTIN: case SIGTTOU: case SIGCONT:
				if (syscall(SYS_ptrace, running.request, changed, 0, 0) == 0)
					continue;
			}
			running.pid = 0;
		}
		if (status && changed > 0)
			*status = found;
		return changed;
	}
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	long result;
	switch (request) {
	case PTRACE_SETREGSET:
		if ((long)address == NT_X86_XSTATE)
			return set_state(pid, address, data);
		break;
	case PTRACE_GETREGSET:
		/* The system writes into `data` how much there was. */
		result = syscall(SYS_ptrace, request, pid, address, data);
		if ((long)address == NT_X86_XSTATE && result == 0)
			remember(pid, data);
		return result;
	case PTRACE_GETREGS:
	case PTRACE_SETREGS:
	case PTRACE_GETSIGINFO:
		/* They leave this state alone. */
		return syscall(SYS_ptrace, request, pid, address, data);
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_PEEKUSER: {
		/* The system stores what these read; the library's function returns it. */
		long word = 0;
		if (syscall(SYS_ptrace, request, pid, address, &word) < 0)
			return -1;
		errno = 0;
		return word;
	}
	case PTRACE_CONT:
	case PTRACE_SYSEMU:
	case PTRACE_SYSEMU_SINGLESTEP:
		running.pid = pid;
		running.request = request;
		break;
	default:
		break;
	}
	/* Anything else may let the process run, or is about a new one of the same number. */
	place_of(pid)->pid = 0;
	return syscall(SYS_ptrace, request, pid, address, data);
}
