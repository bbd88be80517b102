"""A small library that stands in for the driver's NVML, and processes that load it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Two devices, whose files have other numbers than they have themselves: GPU-0 is /dev/nvidia9, GPU-1 is /dev/nvidia5.
# What they do is set by environment variables: FAKE_PID (a process on device 1), FAKE_USED (memory held on device 0, in
# bytes), FAKE_BUSY (utilisation of device 0), FAKE_BROKEN (device 0 does not answer), FAKE_NO_DRIVER, FAKE_NO_COUNT (it
# does not say how many there are), FAKE_NO_MINOR (1, 2, 3: device 0, device 1, both do not tell their number).
_LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Utilisation;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } Process;
static long device[2] = {0, 1};
static unsigned long long set(const char *name) { const char *v = getenv(name); return v ? strtoull(v, 0, 10) : 0; }
int nvmlInitWithFlags(unsigned int flags) { return set("FAKE_NO_DRIVER") ? 9 : 0; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "out of order"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return set("FAKE_NO_COUNT") ? 999 : 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **handle) {
  if (i == 0 && set("FAKE_BROKEN")) return 15;
  *handle = &device[i];
  return 0;
}
int nvmlDeviceGetUUID(long *d, char *text, unsigned int n) { snprintf(text, n, "GPU-%ld", *d); return 0; }
int nvmlDeviceGetName(long *d, char *text, unsigned int n) { snprintf(text, n, "Fake A100"); return 0; }
int nvmlDeviceGetMemoryInfo(long *d, Memory *m) {
  m->total = 80000000000ULL; m->used = *d == 0 ? set("FAKE_USED") : 0; m->free = m->total - m->used;
  return 0;
}
int nvmlDeviceGetUtilizationRates(long *d, Utilisation *u) {
  u->gpu = *d == 0 ? set("FAKE_BUSY") : 0; u->memory = 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(long *d, unsigned int *count, Process *list) {
  unsigned int there = *d == 1 && set("FAKE_PID") ? 1 : 0, room = *count;
  *count = there;
  if (room < there) return 7;
  if (there) { memset(list, 0, sizeof *list); list->pid = set("FAKE_PID"); list->used = 3000000000ULL; }
  return 0;
}
#ifndef OLD
int nvmlDeviceGetMinorNumber(long *d, unsigned int *minor) {
  *minor = *d == 0 ? 9 : 5;
  return set("FAKE_NO_MINOR") >> *d & 1 ? 3 : 0;
}
#endif
"""


def build_nvml(folder: Path, *defined: str) -> Path:
    """The folder, with the library in it; OLD: one that knows nothing of minor numbers."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is needed to build the library that stands in for NVML")
    (folder / "nvml.c").write_text(_LIBRARY)
    target = str(folder / "libnvidia-ml.so.1")
    words = ["gcc", "-shared", "-fPIC", "-w", *(f"-D{name}" for name in defined), "-o", target]
    subprocess.run([*words, str(folder / "nvml.c")], check=True)
    return folder


def ask_with_nvml(library: Path, code: str, *words: str, **settings: object) -> Any:
    """What the code prints, as JSON. In a process of its own: the dynamic linker looks at its search path only once."""
    env = {name: str(value) for name, value in settings.items()} | {
        "LD_LIBRARY_PATH": str(library),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-W", "error", "-c", code, *words]
    result = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)
