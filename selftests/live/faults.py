# SPDX-License-Identifier: BSD-2-Clause
"""What fails in the kernel where nothing outside of it can make it fail: each reason with the changes to
the programs that do, (file, text, what takes its place). All else is as it is built, so what comes of such a
failure is. boots/faults.test builds the programs with these; reasons.test, with RF_FAULTY, provokes them."""

# No memory for what is to be kept for a task whose name begins with ~: all that the kernel says then is NULL.
_NO_STORAGE = ("BPF_LOCAL_STORAGE_GET_F_CREATE",
               "(bpf_get_current_task_btf()->comm[0] == '~' ? 0 : BPF_LOCAL_STORAGE_GET_F_CREATE)")

FAULTS = {
    "no-storage": [("bpf/kernel.h", "struct task_struct {\n", "struct task_struct {\n\tchar comm[16];\n"),
                   ("bpf/label.bpf.h", *_NO_STORAGE),
                   ("bpf/task.bpf.c", *_NO_STORAGE),
                   ("bpf/terminal.bpf.c", *_NO_STORAGE)],
    # A walk that was disturbed is not tried again.
    "raced": [("bpf/walk.bpf.h", "i < RF_WALKS;", "i < 0;")],
}
